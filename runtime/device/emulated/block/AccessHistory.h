//===- AccessHistory.h - the last accesses to a block's shared memory -----===//
//
// A race detector for kernels that are compiled with checked accesses. Two accesses of different threads to the same
// word race if at least one of them writes, not both are atomic, and no synchronisation orders them. A barrier of the
// block orders all accesses; synchronisation of a warp orders the accesses of its lanes; barriers in shared memory, and
// the cluster's, order accesses of the warps that arrive before those of the warps that wait (ClusterClocks.h). Threads
// and warps are counted through all blocks of a cluster, each of which may access the memory. Whether two accesses
// race does not depend on the schedule, so one run finds the races of every schedule.
//
// Method: FastTrack (Flanagan, Freund 2009), with warps in place of threads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include "device/emulated.cuh"

#include <array>

namespace kiln {

struct AccessTime;

/// Whose access it is, and when it happened, in 8 bytes.
struct AccessStamp {
  enum Kind : uint16_t {
    Thread, ///< index: the ClusterThread
    Lanes,  ///< several lanes of warp `index`
    Warp,   ///< warp `index` as one: the products of all its lanes
    Warps,  ///< several warps of a block alone in its cluster, without barriers in shared memory
    Listed, ///< several warps; the history has a list of them
    Copy,   ///< an asynchronous copy, whose bytes arrive at barrier `index` of the cluster
  };
  /// Times of lists and copies begin here, later than all others: no barrier of the block orders them.
  static constexpr uint32_t late = 0x80000000;
  /// The most blocks of a cluster, and barriers in its shared memory, for which an index has room.
  static constexpr size_t maxBlocks = 8;
  static constexpr size_t maxBarriers = 1 << 12;

  uint32_t time = 0; ///< 0: no access yet. Of a copy: its phase + 1; of a list: its number
  uint16_t warpSyncs = 0;
  uint16_t who = 0;

  static AccessStamp of(Kind kind, size_t index, uint32_t time, uint32_t warpSyncs = 0) {
    return {time, static_cast<uint16_t>(warpSyncs), static_cast<uint16_t>(kind << kindShift | index)};
  }
  Kind kind() const { return static_cast<Kind>(who >> kindShift); }
  size_t index() const { return who & ((1u << kindShift) - 1); }

  /// Whether a synchronisation orders this before `now`, or both are accesses of the same thread. Not for lists.
  bool isOrdered(const AccessTime &now) const;
  bool isOfWarp(size_t warp) const;

private:
  static constexpr unsigned kindShift = 13;
  bool isOrderedWithoutBlockBarrier(const AccessTime &now) const;
};

/// The moment of an access.
struct AccessTime {
  AccessStamp stamp;      ///< what the history keeps of it
  uint32_t thread;        ///< a ClusterThread
  uint32_t warpSyncs;     ///< synchronisations of the thread's warp before it
  uint32_t floor;         ///< all accesses up to this time are ordered before it
  const uint32_t *seen;   ///< the times in the clock of the thread's warp; null if its block has no clocks
  const uint32_t *phases; ///< the phases in that clock
  const void *code;       ///< the address of the access in the kernel's library
};

/// What an access of a kind does, and how messages describe it: a thread `does` it, or `has done` it.
struct AccessKind {
  bool reads, writes;
  StringRef does, hasDone;
};
const AccessKind &kindOf(EmulatedAccess access);

/// The last access of each kind to every word of 4 bytes. Accesses to parts of a word are not recorded: the other parts
/// may belong to other threads.
class AccessHistory {
public:
  /// Another thread's access that races with this one.
  struct Race {
    AccessStamp stamp; ///< of the other access, not of a list, and its kind and place
    EmulatedAccess access;
    const void *code;
  };
  /// Records an access at a multiple of its size from the start, and returns the access that it races with.
  std::optional<Race> note(size_t offset, size_t bytes, EmulatedAccess access, const AccessTime &now);

  /// Forgets all accesses.
  void clear();

private:
  static constexpr size_t wordBytes = 4;

  struct Touch {
    AccessStamp stamp;
    const void *code = nullptr;
  };
  using Word = std::array<Touch, kEmulatedAccesses>; ///< by kind of access

  /// The access, or that of a list, that is not ordered before `now`; null if all are.
  const Touch *unordered(const Touch &touch, const AccessTime &now) const;
  /// Adds an access that does not race with this one.
  void add(Touch &touch, const AccessTime &now);
  static void addWithinWarp(Touch &touch, const AccessTime &now);
  void startList(Touch &touch, const AccessTime &now);
  void dropList(Touch &touch);
  std::vector<Touch> &listOf(const Touch &touch) { return lists[touch.stamp.time - AccessStamp::late]; }
  const std::vector<Touch> &listOf(const Touch &touch) const { return lists[touch.stamp.time - AccessStamp::late]; }
  void addToList(std::vector<Touch> &list, const AccessTime &now);

  std::vector<Word> words;               ///< grows as words are needed
  std::vector<std::vector<Touch>> lists; ///< each has the last access of every warp that has accessed the word
  std::vector<uint32_t> unusedLists;
};

inline bool AccessStamp::isOfWarp(size_t warp) const {
  return kind() == Thread ? index() / 32 == warp : (kind() == Lanes || kind() == Warp) && index() == warp;
}

inline bool AccessStamp::isOrdered(const AccessTime &now) const {
  // Threads are of kind 0.
  return time <= now.floor || who == now.thread || isOrderedWithoutBlockBarrier(now);
}

} // namespace kiln
