// Barriers in shared memory, and the copies whose bytes arrive at them.
#include "runtime/device/emulated/block/BlockCluster.h"
#include "runtime/device/emulated/block/Report.h"
#include "runtime/device/emulated/block/Scheduler.h"

namespace kiln {

void Thread::initBarrier(u64 *barrier, u32 arrivals, const Site &site) {
  owner->initBarrier(*this, barrier, arrivals, site);
}
void Thread::fenceBarriers() { owner->fenceBarriers(*this); }
void Thread::arriveAtBarrier(u64 *barrier, u32 bytes, const Site &site) {
  owner->arriveAtBarrier(*this, barrier, bytes, site);
}
void Thread::waitForPhase(u64 *barrier, u32 parity, bool isOfCluster, const Site &site) {
  owner->waitForPhase(*this, barrier, parity, isOfCluster, site);
}
static BoxCopy boxCopy(void *to, const TensorMap &from, const int *at, u32 rank) {
  BoxCopy copy = {from, {}, static_cast<char *>(to)};
  std::copy_n(at, rank, copy.at.begin());
  return copy;
}

void Thread::copyBox(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, const Site &site,
                     const void *code) {
  owner->copyBox(*this, boxCopy(to, from, at, rank), rank, barrier, site, code);
}
void Thread::copyBytes(void *to, const void *from, u64 bytes, u64 *barrier, const Site &site, const void *code) {
  owner->copyBytes(*this, to, from, bytes, barrier, site, code);
}
void Thread::copyBoxToBlocks(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, u32 blocks,
                             const Site &site, const void *code) {
  owner->copyBoxToBlocks(*this, boxCopy(to, from, at, rank), rank, barrier, blocks, site, code);
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
  std::vector<PhaseBarrier> &barriers = cluster->barriers;
  if (barriers.size() == AccessStamp::maxBarriers)
    fail(formatv("{0}: expected at most {1} barriers in the shared memory of a cluster", who, AccessStamp::maxBarriers),
         site);
  if (arrivals == 0 || arrivals > PhaseBarrier::most)
    fail(formatv("{0}: expected a barrier of 1 to {1} arrivals, got {2}", who, PhaseBarrier::most, arrivals), site);
  if (std::optional<size_t> index = PhaseBarrier::indexAt(place, barriers))
    failWithNote(who + " initialises a barrier that is in use", site, "it was initialised here",
                 barriers[*index].initialisedAt);
  const size_t index = cluster->clocks.addBarrier();
  *place = PhaseBarrier::mark(index);
  barriers.emplace_back(*this, place, arrivals, thread, now(thread).stamp, site);
}

void ThreadBlock::fenceBarriers(Thread &thread) {
  for (PhaseBarrier &barrier : cluster->barriers)
    if (barrier.initialiser == &thread)
      barrier.isFenced = true;
}

size_t ThreadBlock::indexOf(const PhaseBarrier &barrier) const { return &barrier - cluster->barriers.data(); }

PhaseBarrier &ThreadBlock::barrierAt(Thread &thread, const u64 *place, Site site, bool bringsBytes) {
  // Threads that poll call this often: names are made for errors alone.
  auto who = [&] { return nameThreads({&thread}); };
  ThreadBlock *where = cluster->blockAt(place);
  if (!where || where->shared.outside(place, sizeof(*place)))
    fail(who() + ": expected a barrier in shared memory", site);
  if (where != this && !cluster->noteVisit(thread, *where, "uses a barrier in", site, bringsBytes))
    scheduler->unwind();
  const std::optional<size_t> index = PhaseBarrier::indexAt(place, cluster->barriers);
  if (!index)
    fail(who() + " uses a barrier that nothing has initialised, or that something has overwritten", site);
  PhaseBarrier &barrier = cluster->barriers[*index];
  barrier.hasVisitors |= where != this;
  if (barrier.initialiser == &thread)
    return barrier;
  auto initialised = [&] {
    return who() + " uses a barrier that " + nameThreads({barrier.initialiser}, *this) + " has initialised ";
  };
  if (!barrier.initialised.isOrdered(now(thread)))
    failWithNote(initialised() + "since the last barrier of the " + (where == this ? "block" : "cluster"), site,
                 "it was initialised here", barrier.initialisedAt);
  if (!barrier.isFenced)
    failWithNote(initialised() + "without fenceBarriers()", site, "it was initialised here", barrier.initialisedAt);
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
  if (barrier.missing == 1 && barrier.copied > barrier.expected + bytes)
    failWithNote(formatv("{0} is the last to arrive at a barrier that expects {1} bytes then, but {2} are sent there",
                         nameThreads({&thread}), barrier.expected + bytes, barrier.copied),
                 site, nameThreads({barrier.lastCopy->thread}, *this) + " sends some of them here",
                 barrier.lastCopy->site);
  if (bytes > 0)
    barrier.lastExpecting = PhaseBarrier::Event{&thread, barrier.phases, site};
  barrier.expected += bytes;
  --barrier.missing;
  cluster->clocks.release(warpNumber(thread), barrier.before);
  cluster->completePhase(barrier);
}

void ThreadBlock::waitForPhase(Thread &thread, u64 *place, u32 parity, bool isOfCluster, Site site) {
  arriveAt(thread, site);
  std::vector<PhaseBarrier> &barriers = cluster->barriers;
  const size_t index = indexOf(barrierAt(thread, place, site));
  if (parity > 1)
    fail(formatv("{0}: expected parity 0 or 1, got {1}", nameThreads({&thread}), parity), site);
  const size_t warp = warpNumber(thread);
  const u32 known = cluster->clocks.phasesKnown(warp, index);
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
  if (barrier.hasVisitors && !isOfCluster)
    fail(nameThreads({&thread}) + ": expected waitClusterBarrier(), as another block takes part in this barrier", site);
  barrier.waited = std::max(barrier.waited, known + isNext);
  cluster->clocks.acquire(warp, barrier.complete);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void ThreadBlock::copyBox(Thread &thread, const BoxCopy &copy, u32 rank, u64 *place, Site site, const void *code) {
  arriveAt(thread, site);
  PhaseBarrier &barrier = barrierAt(thread, place, site);
  checkBox(thread, copy, rank, site);
  startBox(thread, copy, *this, barrier, site, code);
}

void ThreadBlock::copyBoxToBlocks(Thread &thread, const BoxCopy &copy, u32 rank, u64 *place, u32 blocks, Site site,
                                  const void *code) {
  arriveAt(thread, site);
  barrierAt(thread, place, site);
  checkBox(thread, copy, rank, site);
  if (const size_t count = cluster->allBlocks().size(); blocks == 0 || blocks >> count != 0)
    fail(formatv("{0}: expected ranks of the cluster's {1} blocks as bits, got {2:x}", nameThreads({&thread}), count,
                 blocks),
         site);
  for (const std::unique_ptr<ThreadBlock> &where : cluster->allBlocks()) {
    if (!(blocks >> where->clusterRank & 1))
      continue;
    BoxCopy there = copy;
    there.to = static_cast<char *>(shared.counterpart(copy.to, where->shared));
    auto *barrier = static_cast<const u64 *>(shared.counterpart(place, where->shared));
    startBox(thread, there, *where, barrierAt(thread, barrier, site, /*bringsBytes=*/true), site, code);
  }
}

void ThreadBlock::copyBytes(Thread &thread, void *to, const void *from, u64 bytes, u64 *place, Site site,
                            const void *code) {
  constexpr u64 unit = 16;
  arriveAt(thread, site);
  PhaseBarrier &barrier = barrierAt(thread, place, site);
  const std::string who = nameThreads({&thread});
  auto isAligned = [](const void *address) { return reinterpret_cast<uintptr_t>(address) % unit == 0; };
  if (!isAligned(to) || !isAligned(from) || bytes == 0 || bytes % unit != 0)
    fail(formatv("{0}: expected places at multiples of {1} bytes and a multiple of {1} bytes to copy, got {2} bytes "
                 "from {3} to {4}",
                 who, unit, bytes, from, to),
         site);
  if (!shared.contains(to) || shared.outside(to, bytes))
    fail(formatv("{0} copies {1} bytes to a place that is not all in one shared variable", who, bytes), site);
  auto *target = static_cast<char *>(to);
  checkBytes(thread, barrier, *this, target, bytes, /*isSent=*/false, site);
  checkSource(thread, from, bytes, site, code);
  if (code)
    noteCopy(thread, barrier, shared, target, bytes, "copies to", code);
  startCopy(thread, barrier, target, bytes, [to, from, bytes] { std::memcpy(to, from, bytes); }, site);
}

void ThreadBlock::checkBox(Thread &thread, const BoxCopy &copy, u32 rank, Site site) {
  const std::string who = nameThreads({&thread});
  if (rank != copy.map.rank)
    fail(formatv("{0}: expected a tensor map of rank {1}, got {2}", who, rank, copy.map.rank), site);
  if (std::optional<std::string> fault = copy.fault())
    fail(who + ": " + *fault, site);
  if (!shared.contains(copy.to) || shared.outside(copy.to, copy.bytes()))
    fail(formatv("{0} copies {1} bytes to a place that is not all in one shared variable", who, copy.bytes()), site);
}

void ThreadBlock::startBox(Thread &thread, const BoxCopy &copy, ThreadBlock &where, PhaseBarrier &barrier, Site site,
                           const void *code) {
  checkBytes(thread, barrier, where, copy.to, copy.bytes(), /*isSent=*/false, site);
  checkSource(thread, copy, site, code);
  if (code)
    noteCopy(thread, barrier, where.shared, copy.to, copy.bytes(), "copies to", code);
  startCopy(thread, barrier, copy.to, copy.bytes(), [copy] { copy.deliver(); }, site);
}

void ThreadBlock::checkBytes(Thread &thread, PhaseBarrier &barrier, ThreadBlock &where, const char *to, size_t bytes,
                             bool isSent, Site site) {
  const std::string who = nameThreads({&thread});
  const StringRef verb = isSent ? "sends" : "copies";
  if (!barrier.isFenced)
    failWithNote(who + ": expected fenceBarriers() before bytes are sent to this barrier", site,
                 "it was initialised here", barrier.initialisedAt);
  for (const PhaseBarrier &other : cluster->barriers)
    if (other.block == &where && static_cast<size_t>(reinterpret_cast<const char *>(other.place) - to) < bytes)
      failWithNote(who + " " + verb + " to a place where a barrier lies", site, "it was initialised here",
                   other.initialisedAt);
  // What threads of a cluster send may come before the block expects it, if that is certain to be in the same phase;
  // and so may copies of another block.
  const bool isShared = &where != this || isSent;
  const u32 known = cluster->clocks.phasesKnown(warpNumber(thread), indexOf(barrier));
  if (isShared && known < barrier.phases)
    fail(formatv("{0} {1} bytes to a barrier of which {2} phases are complete, when it can know of {3} only", who, verb,
                 barrier.phases, known),
         site);
  const bool mayComeFirst = isShared && barrier.missing > 0;
  if (!mayComeFirst && barrier.copied + bytes > barrier.expected)
    fail(formatv("{0} {1} {2} bytes to a barrier that expects {3} more; arriveExpecting() comes first", who, verb,
                 bytes, barrier.expected - std::min(barrier.expected, barrier.copied)),
         site);
}

void ThreadBlock::startCopy(Thread &thread, PhaseBarrier &barrier, char *to, size_t bytes,
                            std::function<void()> deliver, Site site) {
  fillWords(to, bytes, poisonWord);
  barrier.copied += bytes;
  barrier.lastCopy = PhaseBarrier::Event{&thread, barrier.phases, site};
  cluster->copies.push_back({indexOf(barrier), bytes, std::move(deliver)});
  scheduler->noteCopy();
}

void ThreadBlock::checkSource(Thread &thread, const BoxCopy &copy, Site site, const void *code) {
  for (size_t i = 0; i < copy.rows(); ++i)
    if (const BoxCopy::Row row = copy.row(i); row.bytes > 0)
      checkSource(thread, row.from, row.bytes, site, code);
}

void ThreadBlock::checkSource(Thread &thread, const void *from, size_t bytes, Site site, const void *code) {
  const TensorRanges &tensors = scheduler->currentLaunch().tensors;
  if (code)
    checkGlobalAccess(thread, from, bytes, EmulatedAccess::Read, code);
  else if (!tensors.find(from, bytes))
    fail(nameThreads({&thread}) + " reads " + Twine(bytes) + " bytes " + tensors.describeOutside(from, bytes), site);
}

void ThreadBlock::noteCopy(Thread &thread, const PhaseBarrier &barrier, SharedMemory &memory, const char *to,
                           size_t bytes, StringRef verb, const void *code) {
  AccessTime time = now(thread, code);
  time.stamp = AccessStamp::of(AccessStamp::Copy, indexOf(barrier), AccessStamp::late + barrier.phases + 1);
  noteSharedAccess(thread, memory, to, bytes, EmulatedAccess::Write, verb, time);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void ThreadBlock::checkPhasesAtEnd() {
  for (const PhaseBarrier &barrier : cluster->barriers) {
    if (barrier.block != this)
      continue;
    if (barrier.lastCopy && barrier.lastCopy->phase >= barrier.waited)
      return barrier.lastCopy->thread->owner->report(
          nameThreads({barrier.lastCopy->thread}) +
              " starts a copy here, but no thread waits for it before the kernel ends",
          barrier.lastCopy->site);
    if (barrier.expected > barrier.copied)
      return report(nameThreads({barrier.lastExpecting->thread}, *this) +
                        " makes a barrier expect bytes here, but the kernel ends when " + barrier.missingParts() +
                        " are to come",
                    barrier.lastExpecting->site);
  }
}

} // namespace kiln
