//===- AccessHistory.h - who touched a block's shared memory last --------------===//
//
// A race detector for kernels that are compiled with checked accesses: two threads touch the same word, one of them
// writes, not both of them atomically, and nothing has ordered the two. Barriers of the block order everything,
// synchronisation of a warp the accesses of its lanes. The question does not depend on the schedule, so that one run
// finds what is wrong in any.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include "device/emulated.cuh"

#include <array>

namespace kiln {

/// An access of a thread, and how often the block and the thread's warp had synchronised by then.
struct AccessTime {
  uint32_t thread;
  uint32_t warpSyncs;
  uint32_t blockSyncs;
  const void *code; ///< where the access stands in the kernel's library
};

/// How errors speak of a kind of access: a thread `does` it, or `has done` it.
struct AccessWords {
  const char *does, *hasDone;
};
AccessWords wordsOf(EmulatedAccess access);

/// The last access of each kind to every word of 4 bytes. Accesses to parts of a word are left out: neighbours in
/// it may be different threads'.
class AccessHistory {
public:
  /// Another thread's access that races with this one.
  struct Race {
    std::string what; ///< `that thread 5 has written`
    const void *code; ///< of the other access
  };
  /// Notes an access at a multiple of its bytes' size from the start, and returns what it races with.
  std::optional<Race> note(size_t offset, size_t bytes, EmulatedAccess access, const AccessTime &now);

private:
  static constexpr size_t wordBytes = 4;
  /// In place of a thread: accesses of several threads, of one warp or of several warps.
  static constexpr uint16_t severalLanes = 0x8000, severalWarps = 0xffff;

  struct Touch {
    uint32_t blockSyncs = 0; ///< 0: none yet
    uint16_t warpSyncs = 0;
    uint16_t thread = 0;
    const void *code = nullptr;

    /// Whether something came between this and `now`, or they are the same thread's.
    bool isOrdered(const AccessTime &now) const;
    bool isOfWarp(uint32_t warp) const;
    /// Adds an access that is ordered behind this one, or does not race with it.
    void add(const AccessTime &now);
  };
  using Word = std::array<Touch, kEmulatedAccesses>; ///< by kind of access

  static std::string nameOf(const Touch &touch);

  std::vector<Word> words; ///< as many as have been needed so far
};

} // namespace kiln
