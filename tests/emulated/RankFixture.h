//===- RankFixture.h - kernels of several ranks, each in a thread of its own ---------------===//
#pragma once

#include "emulated/Fixture.h"

#include <thread>

namespace kiln {

/// Three ranks with their inboxes, as on a GPU each.
class RankFixture : public EmulatedTest {
protected:
  static constexpr size_t ranks = 3;
  static constexpr size_t inboxBytes = 148512; ///< of a block: sizeof(BlockInbox<3>), as rank_products.cu asserts
  template <class T> using PerRank = std::array<T, ranks>; ///< as kernels take it

  RankFixture() { *stop.data = 0; }

  /// Inboxes of so many blocks.
  PerRank<char *> inboxesOf(uint32_t blocks) {
    const size_t bytes = blocks * inboxBytes;
    PerRank<char *> made;
    for (char *&inbox : made) {
      inbox = buffer<char>(bytes, "inbox").data;
      std::memset(inbox, 0, bytes);
    }
    return made;
  }

  /// Runs `launch` for all ranks at the same time. Returns their errors.
  template <class Launch> static std::vector<std::string> onAllRanks(Launch launch) {
    std::vector<std::string> errors(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(ranks); ++rank)
      threads.emplace_back([&, rank] { errors[static_cast<size_t>(rank)] = printed(launch(rank)); });
    for (std::thread &thread : threads)
      thread.join();
    return errors;
  }

  PerRank<char *> inboxes = inboxesOf(4);
  Buffer<uint32_t> stop = buffer<uint32_t>(1);
  double patience = 60;
};

} // namespace kiln
