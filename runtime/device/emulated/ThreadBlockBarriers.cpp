// Barriers in shared memory, and the copies whose bytes arrive at them.
#include "runtime/device/emulated/Report.h"
#include "runtime/device/emulated/Scheduler.h"
#include "runtime/device/emulated/ThreadBlock.h"

namespace kiln {

void Thread::initBarrier(u64 *barrier, u32 arrivals, const Site &site) {
  owner->initBarrier(*this, barrier, arrivals, site);
}
void Thread::fenceBarriers() { owner->fenceBarriers(*this); }
void Thread::arriveAtBarrier(u64 *barrier, u32 bytes, const Site &site) {
  owner->arriveAtBarrier(*this, barrier, bytes, site);
}
void Thread::waitForPhase(u64 *barrier, u32 parity, const Site &site) {
  owner->waitForPhase(*this, barrier, parity, site);
}
void Thread::copyBox(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, const Site &site,
                     const void *code) {
  BoxCopy copy = {from, {}, static_cast<char *>(to), 0};
  std::copy_n(at, rank, copy.at.begin());
  owner->copyBox(*this, copy, rank, barrier, site, code);
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

void ThreadBlock::initBarrier(Thread &thread, u64 *place, u32 arrivals, Site site) {
  arriveAt(thread, site);
  const std::string who = nameThreads({&thread});
  if (!shared.contains(place) || shared.outside(place, sizeof(*place)))
    fail(who + ": expected a barrier in shared memory", site);
  if (reinterpret_cast<uintptr_t>(place) % sizeof(*place) != 0)
    fail(formatv("{0}: expected a barrier at a multiple of {1} bytes", who, sizeof(*place)), site);
  if (barriers.size() == AccessStamp::maxBarriers)
    fail(formatv("{0}: expected at most {1} barriers in shared memory", who, AccessStamp::maxBarriers), site);
  if (arrivals == 0 || arrivals > PhaseBarrier::most)
    fail(formatv("{0}: expected a barrier of 1 to {1} arrivals, got {2}", who, PhaseBarrier::most, arrivals), site);
  if (std::optional<size_t> index = PhaseBarrier::indexAt(place, barriers))
    failWithNote(who + " initialises a barrier that is in use", site, "it was initialised here",
                 barriers[*index].initialisedAt);
  const size_t index = clocks.addBarrier();
  *place = PhaseBarrier::mark(index);
  barriers.emplace_back(place, arrivals, now(thread).stamp, site);
}

void ThreadBlock::fenceBarriers(Thread &thread) {
  for (PhaseBarrier &barrier : barriers)
    if (barrier.initialised.index() == thread.thread)
      barrier.isFenced = true;
}

PhaseBarrier &ThreadBlock::barrierAt(Thread &thread, const u64 *place, Site site) {
  const std::string who = nameThreads({&thread});
  if (!shared.contains(place) || shared.outside(place, sizeof(*place)))
    fail(who + ": expected a barrier in shared memory", site);
  const std::optional<size_t> index = PhaseBarrier::indexAt(place, barriers);
  if (!index)
    fail(who + " uses a barrier that nothing has initialised, or that something has overwritten", site);
  PhaseBarrier &barrier = barriers[*index];
  const size_t initialiser = barrier.initialised.index();
  if (initialiser == thread.thread)
    return barrier;
  if (!barrier.initialised.isOrdered(now(thread)))
    failWithNote(formatv("{0} uses a barrier that thread {1} has initialised since the last barrier of the block", who,
                         initialiser),
                 site, "it was initialised here", barrier.initialisedAt);
  if (!barrier.isFenced)
    failWithNote(
        formatv("{0} uses a barrier that thread {1} has initialised without fenceBarriers()", who, initialiser), site,
        "it was initialised here", barrier.initialisedAt);
  return barrier;
}

void ThreadBlock::arriveAtBarrier(Thread &thread, u64 *place, u32 bytes, Site site) {
  arriveAt(thread, site);
  PhaseBarrier &barrier = barrierAt(thread, place, site);
  if (barrier.missing == 0)
    fail(formatv("{0} arrives at a barrier whose phase has had all its arrivals ({1}), and waits for {2} only",
                 nameThreads({&thread}), barrier.arrivals, barrier.missingParts()),
         site);
  if (barrier.expected + bytes > PhaseBarrier::most)
    fail(formatv("{0}: expected at most {1} bytes for a phase of a barrier, got {2}", nameThreads({&thread}),
                 PhaseBarrier::most, barrier.expected + bytes),
         site);
  if (bytes > 0)
    barrier.lastExpecting = PhaseBarrier::Event{thread.thread, barrier.phases, site};
  barrier.expected += bytes;
  --barrier.missing;
  clocks.release(thread.thread / 32, barrier.before);
  completePhase(barrier);
}

void ThreadBlock::completePhase(PhaseBarrier &barrier) {
  if (!barrier.isPhaseComplete())
    return;
  barrier.beginPhase(&barrier - barriers.data());
  std::vector<Thread *> waiting = std::exchange(barrier.waiting, {});
  llvm::sort(waiting, [](const Thread *a, const Thread *b) { return a->thread < b->thread; });
  scheduler->release(waiting);
}

void ThreadBlock::waitForPhase(Thread &thread, u64 *place, u32 parity, Site site) {
  arriveAt(thread, site);
  const size_t index = &barrierAt(thread, place, site) - barriers.data();
  if (parity > 1)
    fail(formatv("{0}: expected parity 0 or 1, got {1}", nameThreads({&thread}), parity), site);
  const size_t warp = thread.thread / 32;
  const u32 known = clocks.phasesKnown(warp, index);
  // The thread knows of so many phases; it may wait for the next one, or for the last of these once more.
  const bool isNext = parity == known % 2;
  auto checkPhase = [&] {
    if (u32 phases = barriers[index].phases; phases > known + isNext)
      fail(formatv("{0} waits for the wrong phase: for parity {1} of a barrier of which {2} phases are complete, when "
                   "it can know of {3} only",
                   nameThreads({&thread}), parity, phases, known),
           site);
  };
  checkPhase();
  if (isNext && barriers[index].phases == known) {
    barriers[index].waiting.push_back(&thread);
    thread.state = Thread::State::AtPhase;
    thread.barrier = index;
    scheduler->wait(thread);
    checkPhase(); // more of them may be complete before the thread goes on
  }
  PhaseBarrier &barrier = barriers[index];
  barrier.waited = std::max(barrier.waited, known + isNext);
  clocks.acquire(warp, barrier.complete);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void ThreadBlock::copyBox(Thread &thread, BoxCopy &copy, u32 rank, u64 *place, Site site, const void *code) {
  arriveAt(thread, site);
  PhaseBarrier &barrier = barrierAt(thread, place, site);
  const std::string who = nameThreads({&thread});
  if (!barrier.isFenced)
    failWithNote(who + ": expected fenceBarriers() before a copy to this barrier", site, "it was initialised here",
                 barrier.initialisedAt);
  if (rank != copy.map.rank)
    fail(formatv("{0}: expected a tensor map of rank {1}, got {2}", who, rank, copy.map.rank), site);
  if (std::optional<std::string> fault = copy.fault())
    fail(who + ": " + *fault, site);
  if (!shared.contains(copy.to) || shared.outside(copy.to, copy.bytes()))
    fail(formatv("{0} copies {1} bytes to a place that is not all in one shared variable", who, copy.bytes()), site);
  for (const PhaseBarrier &other : barriers)
    if (static_cast<size_t>(reinterpret_cast<const char *>(other.place) - copy.to) < copy.bytes())
      failWithNote(who + " copies to a place where a barrier lies", site, "it was initialised here",
                   other.initialisedAt);
  if (barrier.copied + copy.bytes() > barrier.expected)
    fail(formatv("{0} copies {1} bytes to a barrier that expects {2} more; arriveExpecting() comes first", who,
                 copy.bytes(), barrier.expected - barrier.copied),
         site);
  copy.barrier = &barrier - barriers.data();
  checkSource(thread, copy, site, code);
  if (code)
    checkTarget(thread, copy, code);
  fillWords(copy.to, copy.bytes(), poisonWord);
  barrier.copied += copy.bytes();
  barrier.lastCopy = PhaseBarrier::Event{thread.thread, barrier.phases, site};
  copies.push_back(copy);
  scheduler->noteCopy();
}

void ThreadBlock::checkSource(Thread &thread, const BoxCopy &copy, Site site, const void *code) {
  ArrayRef<TensorRange> tensors = scheduler->currentLaunch().tensors;
  for (size_t i = 0; i < copy.rows(); ++i) {
    const BoxCopy::Row row = copy.row(i);
    if (row.bytes == 0)
      continue;
    if (code)
      checkGlobalAccess(thread, row.from, row.bytes, EmulatedAccess::Read, code);
    else if (!findRange(tensors, row.from, row.bytes))
      fail(nameThreads({&thread}) + " reads " + Twine(row.bytes) + " bytes " +
               describeOutside(tensors, row.from, row.bytes),
           site);
  }
}

void ThreadBlock::checkTarget(Thread &thread, const BoxCopy &copy, const void *code) {
  AccessTime time = now(thread, code);
  time.stamp = AccessStamp::of(AccessStamp::Copy, copy.barrier, AccessStamp::late + barriers[copy.barrier].phases + 1);
  for (size_t i = 0; i < copy.rows(); ++i)
    noteSharedAccess(thread, copy.to + i * kSwizzledRowBytes, kSwizzledRowBytes, EmulatedAccess::Write, "copies to",
                     time);
}

void ThreadBlock::deliverCopy(size_t which) {
  copies[which].deliver();
  PhaseBarrier &barrier = barriers[copies[which].barrier];
  barrier.arrived += copies[which].bytes();
  copies.erase(copies.begin() + static_cast<ptrdiff_t>(which));
  completePhase(barrier);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void ThreadBlock::checkPhasesAtEnd() {
  for (const PhaseBarrier &barrier : barriers) {
    if (barrier.lastCopy && barrier.lastCopy->phase >= barrier.waited)
      return report(formatv("thread {0} starts a copy here, but no thread waits for it before the kernel ends",
                            barrier.lastCopy->thread),
                    barrier.lastCopy->site);
    if (barrier.expected > barrier.copied)
      return report(formatv("thread {0} makes a barrier expect bytes here, but the kernel ends when {1} are to come",
                            barrier.lastExpecting->thread, barrier.missingParts()),
                    barrier.lastExpecting->site);
  }
}

void ThreadBlock::reportStuckPhases(ArrayRef<const Thread *> waiting) {
  auto isTogether = [](const Thread *a, const Thread *b) {
    return a->state == b->state && a->site == b->site && a->barrier == b->barrier;
  };
  auto describe = [&](ArrayRef<const Thread *> group) {
    const bool isOne = group.size() == 1;
    std::string text = nameThreads(group);
    if (group.front()->state != Thread::State::AtPhase)
      return text + (isOne ? " is here" : " are here");
    return text + (isOne ? " waits" : " wait") + " here for " + barriers[group.front()->barrier].missingParts();
  };
  std::vector<const Thread *> rest = waiting;
  // First those that wait for bytes only: no thread that waits elsewhere would bring them.
  std::stable_partition(rest.begin(), rest.end(), [&](const Thread *thread) {
    return thread->state == Thread::State::AtPhase && barriers[thread->barrier].missing == 0;
  });
  for (bool isFirst = true; !rest.empty(); isFirst = false) {
    auto end = std::stable_partition(rest.begin(), rest.end(), [&, first = rest.front()](const Thread *thread) {
      return isTogether(thread, first);
    });
    const std::vector<const Thread *> group(rest.begin(), end);
    rest.erase(rest.begin(), end);
    if (isFirst)
      report(describe(group) + ", which no thread and no copy brings", group.front()->site);
    else
      scheduler->addNote(diagnosticAt(Diagnostic::Severity::Note, group.front()->site,
                                      *scheduler->currentLaunch().kernel, describe(group)));
  }
}

} // namespace kiln
