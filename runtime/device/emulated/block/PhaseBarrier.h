//===- PhaseBarrier.h - a barrier in shared memory ---------------------------------------===//
#pragma once

#include "runtime/device/emulated/block/ClusterClocks.h"

namespace kiln {

class Thread;
class ThreadBlock;

/// The state of a barrier of templates/device/barrier.cuh. Its 8 bytes in shared memory hold a mark with its index.
struct PhaseBarrier {
  /// The most arrivals and bytes that a phase takes (PTX ISA, "mbarrier").
  static constexpr u64 most = (1 << 20) - 1;

  /// What a thread did at a place of the kernel, in a phase.
  struct Event {
    const Thread *thread;
    u32 phase;
    Site site;
  };

  const ThreadBlock *block; ///< in whose shared memory it lies
  const u64 *place;
  u32 arrivals;          ///< that a phase takes
  u32 phases = 0;        ///< complete ones; the next one is the current one
  u32 missing;           ///< arrivals that the current phase still takes
  u64 expected = 0;      ///< bytes of the current phase
  u64 copied = 0;        ///< bytes of copies that have been started; more than expected only while arrivals are missing
  u64 arrived = 0;       ///< of these: bytes that have arrived
  ClusterClock before;   ///< joined clocks of all who have arrived, in any phase
  ClusterClock complete; ///< the same without the current phase
  bool hasVisitors = false; ///< whether other blocks of the cluster take part in it
  std::vector<Thread *> waiting;

  const Thread *initialiser;
  AccessStamp initialised;
  Site initialisedAt;
  bool isFenced = false;
  u32 waited = 0;                     ///< phases for which a thread has waited
  std::optional<Event> lastCopy;      ///< the last one that was started
  std::optional<Event> lastExpecting; ///< the last arrival that has named bytes

  PhaseBarrier(const ThreadBlock &block, const u64 *place, u32 arrivals, const Thread &thread, AccessStamp now,
               Site site)
      : block(&block), place(place), arrivals(arrivals), missing(arrivals), initialiser(&thread), initialised(now),
        initialisedAt(site) {}

  /// The content of a barrier's 8 bytes.
  static u64 mark(size_t index) { return markBits | index; }
  /// The index of the barrier that lies there, if its bytes are still those that initBarrier has written.
  static std::optional<size_t> indexAt(const u64 *place, ArrayRef<PhaseBarrier> barriers);

  bool isPhaseComplete() const { return missing == 0 && arrived == expected; }
  /// Begins the next phase. The barrier has this index in the cluster.
  void beginPhase(ClusterClocks &clocks, size_t index);

  /// The arrivals and bytes for which the phase waits: `1 more arrival and 4096 bytes`.
  std::string missingParts() const;

private:
  static constexpr u64 markBits = 0x6b696c6e00000000; // "kiln"
};

} // namespace kiln
