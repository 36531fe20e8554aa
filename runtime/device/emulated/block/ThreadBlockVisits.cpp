// The blocks of a cluster: their barrier, and accesses of a thread to the shared memory of another block.
#include "runtime/device/emulated/block/BlockCluster.h"
#include "runtime/device/emulated/block/Report.h"
#include "runtime/device/emulated/block/Scheduler.h"

#include <cstring>

namespace kiln {

void Thread::arriveCluster(const Site &site) { owner->arriveCluster(*this, site); }
void Thread::waitCluster(const Site &site) { owner->waitCluster(*this, site); }
void *Thread::inBlock(const void *own, u32 rank, const Site &site) { return owner->inBlock(*this, own, rank, site); }
void Thread::readCluster(void *to, const void *from, u64 bytes, const Site &site, const void *code) {
  owner->readCluster(*this, to, from, bytes, site, code);
}
void Thread::writeCluster(void *to, const void *from, u64 bytes, const Site &site, const void *code) {
  owner->writeCluster(*this, to, from, bytes, site, code);
}
void Thread::sendCluster(void *to, const void *from, u64 bytes, u64 *barrier, const Site &site, const void *code) {
  owner->sendCluster(*this, to, from, bytes, barrier, site, code);
}

//===----------------------------------------------------------------------===//
// The cluster's barrier
//===----------------------------------------------------------------------===//

void ThreadBlock::gatherWarp(Thread &thread, EmulatedCombine combine, Site site) {
  u32 members = 0;
  for (const Thread &lane : threadsOfWarp(thread))
    if (lane.state != Thread::State::Finished)
      members |= 1u << lane.lane();
  syncWarp(thread, members, &thread, combine, site);
}

void ThreadBlock::arriveCluster(Thread &thread, Site site) {
  if (thread.clusterPhase)
    fail(nameThreads({&thread}) + " arrives at the cluster's barrier twice, without waitCluster() in between", site);
  // The lanes arrive as one, after everything that any of them did before and before all that they do next.
  auto arriveAll = [](void *const *lanes) -> const char * {
    for (size_t i = 0; i < 32; ++i)
      if (auto *lane = static_cast<Thread *>(lanes[i]))
        lane->owner->cluster->arrive(*lane);
    return nullptr;
  };
  gatherWarp(thread, arriveAll, site);
}

void ThreadBlock::waitCluster(Thread &thread, Site site) {
  if (!thread.clusterPhase)
    fail(nameThreads({&thread}) + " waits at the cluster's barrier without having arrived there", site);
  gatherWarp(thread, [](void *const *) -> const char * { return nullptr; }, site);
  cluster->wait(thread);
}

//===----------------------------------------------------------------------===//
// Shared memory of other blocks
//===----------------------------------------------------------------------===//

void *ThreadBlock::inBlock(Thread &thread, const void *own, u32 rank, Site site) {
  if (rank >= cluster->allBlocks().size())
    fail(formatv("{0}: expected the rank of one of the cluster's {1} blocks, got {2}", nameThreads({&thread}),
                 cluster->allBlocks().size(), rank),
         site);
  void *there = shared.counterpart(own, cluster->allBlocks()[rank]->shared);
  if (!there)
    fail(nameThreads({&thread}) + ": expected an address in the block's own shared memory", site);
  return there;
}

ThreadBlock &ThreadBlock::visit(Thread &thread, const void *address, u64 bytes, StringRef verb, Site site) {
  ThreadBlock *where = cluster->blockAt(address);
  if (!where)
    fail(formatv("{0} {1} {2} bytes outside the cluster's shared memory", nameThreads({&thread}), verb, bytes), site);
  if (where != this && !cluster->noteVisit(thread, *where, verb, site))
    scheduler->unwind();
  if (std::optional<std::string> outside = where->shared.outside(address, bytes))
    fail(nameThreads({&thread}) + " " + verb + " " + Twine(bytes) + " bytes " + *outside +
             (where == this ? "" : " of " + where->name()),
         site);
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fail(nameThreads({&thread}) + ": misaligned vector access: expected an address aligned to its size", site);
  return *where;
}

void ThreadBlock::readCluster(Thread &thread, void *to, const void *from, u64 bytes, Site site, const void *code) {
  ThreadBlock &where = visit(thread, from, bytes, "reads", site);
  if (code)
    checkSharedAccess(thread, where.shared, from, bytes, EmulatedAccess::Read, now(thread, code));
  std::memcpy(to, from, bytes);
}

void ThreadBlock::writeCluster(Thread &thread, void *to, const void *from, u64 bytes, Site site, const void *code) {
  ThreadBlock &where = visit(thread, to, bytes, "writes", site);
  if (code)
    checkSharedAccess(thread, where.shared, to, bytes, EmulatedAccess::Write, now(thread, code));
  std::memcpy(to, from, bytes);
}

void ThreadBlock::sendCluster(Thread &thread, void *to, const void *from, u64 bytes, u64 *place, Site site,
                              const void *code) {
  arriveAt(thread, site);
  ThreadBlock &where = visit(thread, to, bytes, "sends to", site);
  PhaseBarrier &barrier = barrierAt(thread, place, site);
  if (barrier.block != &where)
    fail(formatv("{0} sends to {1}, but to a barrier of {2}", nameThreads({&thread}), where.name(),
                 barrier.block->name()),
         site);
  checkBytes(thread, barrier, where, static_cast<const char *>(to), bytes, /*isSent=*/true, site);
  if (code)
    noteCopy(thread, barrier, where.shared, static_cast<const char *>(to), bytes, "sends to", code);
  // A warp's accesses to shared memory happen in order, so the phase also brings what the warp has done before.
  cluster->clocks.release(warpNumber(thread), barrier.before);
  std::array<char, 16> value = {};
  std::memcpy(value.data(), from, bytes);
  startCopy(
      thread, barrier, static_cast<char *>(to), bytes, [to, value, bytes] { std::memcpy(to, value.data(), bytes); },
      site);
}

} // namespace kiln
