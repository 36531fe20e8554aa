#include "runtime/device/emulated/block/BlockCluster.h"

#include "runtime/device/emulated/block/Report.h"
#include "runtime/device/emulated/block/Scheduler.h"

namespace kiln {

static EmulatedIndex blockIndex(uint64_t block, const Dim3 &grid) {
  return {static_cast<u32>(block % grid.x), static_cast<u32>(block / grid.x % grid.y),
          static_cast<u32>(block / grid.x / grid.y)};
}

void BlockCluster::reset(Scheduler &newScheduler, const EmulatedLaunch &launch, uint64_t index) {
  scheduler = &newScheduler;
  blockCount = launch.options.cluster;
  while (blocks.size() < blockCount)
    blocks.push_back(std::make_unique<ThreadBlock>());
  warpsOfBlock = llvm::divideCeil(launch.blockThreads, 32);
  const bool forgets = clocks.reset(blockCount, warpsOfBlock);
  for (const auto &[rank, block] : llvm::enumerate(allBlocks())) {
    block->reset(newScheduler, launch, *this, static_cast<u32>(rank),
                 blockIndex(index * blockCount + rank, launch.grid));
    if (forgets)
      block->sharedMemory().forgetAccesses();
  }
  barriers.clear();
  copies.clear();
  visits.assign(hasOneBlock() ? 0 : blockCount * blockCount * warpsOfBlock, Visit());
  missing = live = blockCount * launch.blockThreads;
  phases = 0;
  before.clear();
  complete.clear();
  waiting.clear();
}

ThreadBlock *BlockCluster::blockAt(const void *address) {
  for (const std::unique_ptr<ThreadBlock> &block : allBlocks())
    if (block->sharedMemory().contains(address))
      return block.get();
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Copies and barriers in shared memory
//===----------------------------------------------------------------------===//

void BlockCluster::deliverCopy(size_t which) {
  const AsyncCopy copy = std::move(copies[which]);
  copies.erase(copies.begin() + static_cast<ptrdiff_t>(which));
  copy.deliver();
  PhaseBarrier &barrier = barriers[copy.barrier];
  barrier.arrived += copy.bytes;
  completePhase(barrier);
}

void BlockCluster::completePhase(PhaseBarrier &barrier) {
  if (!barrier.isPhaseComplete())
    return;
  barrier.beginPhase(clocks, &barrier - barriers.data());
  std::vector<Thread *> waiting = std::exchange(barrier.waiting, {});
  llvm::sort(waiting, [](const Thread *a, const Thread *b) { return a->thread < b->thread; });
  scheduler->release(waiting);
}

//===----------------------------------------------------------------------===//
// The cluster's barrier
//===----------------------------------------------------------------------===//

void BlockCluster::arrive(Thread &thread) {
  if (clocks.start())
    // What was noted without clocks cannot be compared.
    thread.owner->sharedMemory().forgetAccesses();
  clocks.release(thread.owner->warpNumber(thread), before);
  thread.clusterPhase = phases;
  if (--missing == 0)
    openBarrier();
}

void BlockCluster::wait(Thread &thread) {
  if (phases == *thread.clusterPhase) {
    waiting.push_back(&thread);
    thread.state = Thread::State::AtCluster;
    scheduler->wait(thread);
  }
  clocks.acquire(thread.owner->warpNumber(thread), complete);
  thread.clusterPhase.reset();
}

void BlockCluster::openBarrier() {
  complete = before;
  ++phases;
  missing = live;
  for (const std::unique_ptr<ThreadBlock> &block : allBlocks())
    block->noteSync();
  std::vector<Thread *> released = std::exchange(waiting, {});
  llvm::sort(released, [](const Thread *a, const Thread *b) {
    return std::pair(a->clusterRank, a->thread) < std::pair(b->clusterRank, b->thread);
  });
  scheduler->release(released);
}

void BlockCluster::leave(Thread &thread) {
  --live;
  const bool hasArrived = thread.clusterPhase == phases;
  if (!hasArrived && --missing == 0 && live > 0)
    openBarrier();
}

//===----------------------------------------------------------------------===//
// Visits to the shared memory of other blocks
//===----------------------------------------------------------------------===//

MutableArrayRef<BlockCluster::Visit> BlockCluster::visitsOf(const ThreadBlock &block) {
  const size_t warps = blockCount * warpsOfBlock;
  return MutableArrayRef(visits).slice(block.rank() * warps, warps);
}

static constexpr StringRef mayHaveEnded = "which may have ended: nothing makes it wait for this";

bool BlockCluster::noteVisit(Thread &thread, ThreadBlock &visited, StringRef verb, Site site, bool isAwaited) {
  const size_t warp = thread.owner->warpNumber(thread);
  const Visit visit = {thread.owner->now(thread).stamp.time, &thread, verb, site};
  if (!clocks.knowsOf(warp, visited.rank()))
    reportVisit(visit, visited, "which may not have started: syncCluster() comes first");
  else if (visited.isFinished())
    reportVisit(visit, visited, mayHaveEnded);
  if (!isAwaited)
    visitsOf(visited)[warp] = visit;
  return !scheduler->hasFailed();
}

void BlockCluster::reportVisit(const Visit &visit, const ThreadBlock &visited, StringRef message) {
  visit.thread->owner->report(nameThreads({visit.thread}) + " " + visit.verb + " the shared memory of " +
                                  visited.name() + ", " + message,
                              visit.site);
}

void BlockCluster::checkEnd(ThreadBlock &block) {
  block.checkPhasesAtEnd();
  if (hasOneBlock() || scheduler->hasFailed())
    return;
  for (const auto &[warp, visit] : llvm::enumerate(visitsOf(block))) {
    bool isKnown = visit.time == 0;
    for (size_t own = 0; own < warpsOfBlock && !isKnown; ++own)
      isKnown = clocks.timeKnown(block.rank() * warpsOfBlock + own, warp) >= visit.time;
    if (!isKnown)
      return reportVisit(visit, block, mayHaveEnded);
  }
}

//===----------------------------------------------------------------------===//
// Deadlocks
//===----------------------------------------------------------------------===//

void BlockCluster::reportDeadlock() {
  std::vector<const Thread *> stuck;
  for (Thread::State state :
       {Thread::State::AtPhase, Thread::State::AtCollective, Thread::State::AtBarrier, Thread::State::AtCluster})
    for (const std::unique_ptr<ThreadBlock> &block : allBlocks())
      for (const Thread &thread : block->allThreads())
        if (thread.state == state)
          stuck.push_back(&thread);
  if (stuck.empty())
    return;
  const Thread &first = *stuck.front();
  if (first.state == Thread::State::AtPhase)
    return reportStuckPhases(stuck);
  first.owner->report(nameThreads({&first}) + " waits here for threads that wait elsewhere", first.site, stuck);
}

/// Records that threads, of which the first wait for phases, can never go on.
void BlockCluster::reportStuckPhases(ArrayRef<const Thread *> stuck) {
  auto isTogether = [](const Thread *a, const Thread *b) {
    return a->owner == b->owner && a->state == b->state && a->site == b->site && a->barrier == b->barrier;
  };
  std::vector<const Thread *> rest = stuck;
  // First those that wait for bytes only: no thread that waits elsewhere would bring them.
  std::stable_partition(rest.begin(), rest.end(), [&](const Thread *thread) {
    return thread->state == Thread::State::AtPhase && barriers[thread->barrier].missing == 0;
  });
  ThreadBlock &reader = *rest.front()->owner;
  auto describe = [&](ArrayRef<const Thread *> group) {
    const bool isOne = group.size() == 1;
    std::string text = nameThreads(group, reader);
    if (group.front()->state != Thread::State::AtPhase)
      return text + (isOne ? " is here" : " are here");
    return text + (isOne ? " waits" : " wait") + " here for " + barriers[group.front()->barrier].missingParts();
  };
  for (bool isFirst = true; !rest.empty(); isFirst = false) {
    auto end = std::stable_partition(rest.begin(), rest.end(), [&, first = rest.front()](const Thread *thread) {
      return isTogether(thread, first);
    });
    const std::vector<const Thread *> group(rest.begin(), end);
    rest.erase(rest.begin(), end);
    if (isFirst)
      reader.report(describe(group) + ", which no thread and no copy brings", group.front()->site);
    else
      scheduler->addNote(diagnosticAt(Diagnostic::Severity::Note, group.front()->site,
                                      *scheduler->currentLaunch().kernel, describe(group)));
  }
}

} // namespace kiln
