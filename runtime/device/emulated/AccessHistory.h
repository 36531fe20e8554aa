//===- AccessHistory.h - the last accesses to a block's shared memory -----===//
//
// A race detector for kernels that are compiled with checked accesses. Two accesses of different threads to the same
// word race if at least one of them writes, not both are atomic, and no synchronisation orders them. A barrier of the
// block orders all accesses; synchronisation of a warp orders the accesses of its lanes. Whether two accesses race does
// not depend on the schedule, so one run finds the races of every schedule.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include "device/emulated.cuh"

#include <array>

namespace kiln {

/// An access of a thread, and the number of synchronisations of the block and of the thread's warp before it.
struct AccessTime {
  uint32_t thread;
  uint32_t warpSyncs;
  uint32_t blockSyncs;
  const void *code; ///< the address of the access in the kernel's library
};

/// What an access of a kind does, and how messages describe it: a thread `does` it, or `has done` it.
struct AccessKind {
  bool reads, writes;
  const char *does, *hasDone;
};
const AccessKind &kindOf(EmulatedAccess access);

/// The last access of each kind to every word of 4 bytes. Accesses to parts of a word are not recorded: the other parts
/// may belong to other threads.
class AccessHistory {
public:
  /// Another thread's access that races with this one.
  struct Race {
    std::string what; ///< `that thread 5 has written`
    const void *code; ///< of the other access
  };
  /// Records an access at a multiple of its size from the start, and returns the access that it races with.
  std::optional<Race> note(size_t offset, size_t bytes, EmulatedAccess access, const AccessTime &now);

private:
  static constexpr size_t wordBytes = 4;
  /// Stands for several threads of one warp, or of several warps, in place of a thread's number.
  static constexpr uint16_t severalLanes = 0x8000, severalWarps = 0xffff;

  struct Touch {
    uint32_t blockSyncs = 0; ///< 0: none yet
    uint16_t warpSyncs = 0;
    uint16_t thread = 0;
    const void *code = nullptr;

    /// Whether a synchronisation orders this before `now`, or both are accesses of the same thread.
    bool isOrdered(const AccessTime &now) const;
    bool isOfWarp(uint32_t warp) const;
    /// Adds an access that is ordered after this one, or does not race with it.
    void add(const AccessTime &now);
  };
  using Word = std::array<Touch, kEmulatedAccesses>; ///< by kind of access

  static std::string nameOf(const Touch &touch);

  std::vector<Word> words; ///< grows as words are needed
};

} // namespace kiln
