#include "runtime/device/emulated/block/ThreadBlock.h"

#include "runtime/device/emulated/block/BlockCluster.h"
#include "runtime/device/emulated/block/Report.h"
#include "runtime/device/emulated/block/Scheduler.h"

#include <cstring>

namespace kiln {

u32 Thread::syncBlock(bool predicate, const Site &site) { return owner->syncBlock(*this, predicate, site); }
void Thread::syncWarp(u32 members, void *lane, EmulatedCombine combine, const Site &site) {
  owner->syncWarp(*this, members, lane, combine, site);
}
void Thread::syncWarpgroup(void *lane, EmulatedCombine combine, const Site &site) {
  owner->syncWarpgroup(*this, lane, combine, site);
}
void Thread::pause(const Site &site) { owner->pause(*this, site); }
bool Thread::mayWaitForBlocks() const { return owner->mayWaitForBlocks(); }
void Thread::pauseForRank(u32 turn, const u32 *stop, const Site &site) { owner->pauseForRank(*this, turn, stop, site); }
void Thread::acquire() { owner->acquire(*this); }
u32 Thread::clock() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<u32>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}
void *Thread::staticShared(const void *tag, u64 bytes, u64 alignment, const Site &site) {
  return owner->staticShared(*this, tag, bytes, alignment, site);
}
void *Thread::dynamicShared(u64 bytes, const Site &site) { return owner->dynamicShared(*this, bytes, site); }
void Thread::copyLater(void *to, const void *bytes) {
  std::memcpy(copies.emplace_back(Copy{to, {}}).bytes.data(), bytes, 16);
}
void Thread::commitCopies() { copyGroups.push_back(copies.size()); }
void Thread::waitCopies(u32 pending) {
  if (copyGroups.size() <= pending)
    return;
  auto firstPending = copyGroups.end() - pending;
  size_t done = firstPending[-1];
  for (const Copy &copy : ArrayRef<Copy>(copies).take_front(done))
    std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
  copies.erase(copies.begin(), copies.begin() + static_cast<ptrdiff_t>(done));
  copyGroups.erase(copyGroups.begin(), firstPending);
  for (size_t &end : copyGroups)
    end -= done;
}
void Thread::dropCopies() {
  copies.clear();
  copyGroups.clear();
}
void Thread::fail(const char *message, const Site &site) { owner->fail(nameThreads({this}) + ": " + message, site); }

void ThreadBlock::reset(Scheduler &newScheduler, const EmulatedLaunch &launch, BlockCluster &newCluster, u32 rank,
                        EmulatedIndex index) {
  scheduler = &newScheduler;
  cluster = &newCluster;
  clusterRank = rank;
  atBarrier = finished = 0;
  holding = 0;
  threads.resize(launch.blockThreads);
  for (u32 i = 0; i < launch.blockThreads; ++i) {
    Thread &thread = threads[i];
    thread.owner = this;
    thread.thread = i;
    thread.blockThreads = launch.blockThreads;
    thread.block = index;
    thread.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    thread.clusterRank = rank;
    thread.clusterBlocks = launch.options.cluster;
    thread.clusterPhase.reset();
    thread.state = Thread::State::Ready;
    thread.site = {};
    thread.dropCopies();
    thread.committedProducts = thread.finishedProducts = 0;
    thread.areProductsFenced = false;
    thread.hasWaitedForDependencies = false;
  }
  warps.assign(llvm::divideCeil(launch.blockThreads, 32), Warp());
  warpgroups.assign(llvm::divideCeil(launch.blockThreads, warpgroupThreads), Warpgroup());
  shared.reset(launch.dynamicSharedBytes);
}

std::string ThreadBlock::name() const {
  const EmulatedIndex &at = threads.front().block;
  return formatv("block ({0},{1},{2})", at.x, at.y, at.z);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void ThreadBlock::report(const Twine &message, Site site, ArrayRef<const Thread *> also) {
  const EmulatedKernel &kernel = *scheduler->currentLaunch().kernel;
  std::string whole = formatv("kernel {0}: {1}: {2}", kernel.name, name(), message.str());
  std::vector<Diagnostic> diagnostics{diagnosticAt(Diagnostic::Severity::Error, site, kernel, whole)};
  for (const auto &[place, group] : groupByPlace(also))
    diagnostics.push_back(diagnosticAt(Diagnostic::Severity::Note, group.front()->site, kernel,
                                       nameThreads(group, *this) + (group.size() == 1 ? " is here" : " are here")));
  scheduler->setFailure(std::move(diagnostics));
}

void ThreadBlock::fail(const Twine &message, Site site, ArrayRef<const Thread *> also) {
  report(message, site, also);
  scheduler->unwind();
}

void ThreadBlock::failWithNote(const Twine &message, Site site, const Twine &note, Site other) {
  report(message, site);
  scheduler->addNote(diagnosticAt(Diagnostic::Severity::Note, other, *scheduler->currentLaunch().kernel, note.str()));
  scheduler->unwind();
}

/// The threads among `threads` that are in a state.
static std::vector<const Thread *> threadsIn(Thread::State state, ArrayRef<Thread> threads) {
  std::vector<const Thread *> found;
  for (const Thread &thread : threads)
    if (thread.state == state)
      found.push_back(&thread);
  return found;
}

void ThreadBlock::reportStackOverflow(Thread &thread) {
  report(formatv("{0} needs more than the {1} bytes of stack that an emulated thread has", nameThreads({&thread}),
                 FiberStacks::stackBytes()),
         thread.site);
}

void ThreadBlock::checkShared(Thread &thread, std::optional<Site> now) {
  std::optional<std::string> damage = shared.damage();
  if (!damage)
    return;
  const Thread *self = &thread;
  std::string message = nameThreads({self}) + " " + *damage;
  if (!now)
    return report(message + ", after it was here for the last time", thread.site);
  report(message + ", before it came here", *now,
         thread.site.line ? ArrayRef<const Thread *>(self) : ArrayRef<const Thread *>());
}

void ThreadBlock::arriveAt(Thread &thread, Site site) {
  checkShared(thread, site);
  if (scheduler->hasFailed())
    scheduler->unwind();
  thread.site = site;
}

void ThreadBlock::finish(Thread &thread) {
  ++finished;
  Warp &warp = warpOf(thread);
  warp.finished |= 1u << thread.lane();
  checkShared(thread, std::nullopt);
  cluster->leave(thread);
  if (isFinished() && !scheduler->hasFailed())
    return cluster->checkEnd(*this);
  if (atBarrier > 0)
    return reportLeft(barrierSite, threads);
  for (const Collective &collective : warp.collectives)
    if (collective.members >> thread.lane() & 1)
      return reportLeft(collective.site, threadsOfWarp(thread));
  if (const Warpgroup &warpgroup = warpgroupOf(thread); warpgroup.arrived > 0)
    reportLeft(warpgroup.site, threadsOfWarpgroup(thread));
}

void ThreadBlock::reportLeft(Site site, ArrayRef<Thread> among) {
  std::vector<const Thread *> waiting, left = threadsIn(Thread::State::Finished, among);
  for (const Thread &thread : among)
    if (thread.isWaiting() && thread.site == site)
      waiting.push_back(&thread);
  report(nameThreads(waiting) + (waiting.size() == 1 ? " waits here" : " wait here") + ", but " + nameThreads(left) +
             (left.size() == 1 ? " has" : " have") + " left the kernel",
         site);
}

//===----------------------------------------------------------------------===//
// Primitives
//===----------------------------------------------------------------------===//

u32 ThreadBlock::syncBlock(Thread &thread, bool predicate, Site site) {
  arriveAt(thread, site);
  if (atBarrier > 0 && barrierSite != site)
    fail(nameThreads({&thread}) + " waits at this barrier, but others wait at another one", site,
         threadsIn(Thread::State::AtBarrier, threads));
  barrierSite = site;
  thread.state = Thread::State::AtBarrier;
  if (finished > 0) {
    reportLeft(site, threads);
    scheduler->unwind();
  }
  holding += predicate;
  if (++atBarrier < threads.size()) {
    scheduler->wait(thread);
    return heldAtLast;
  }

  atBarrier = 0;
  heldAtLast = std::exchange(holding, 0);
  cluster->clocks.syncBlock(clusterRank);
  noteSync();
  SmallVector<Thread *, 256> others;
  for (Thread &other : threads)
    if (&other != &thread)
      others.push_back(&other);
  scheduler->release(others);
  thread.state = Thread::State::Running;
  return heldAtLast;
}

void ThreadBlock::noteSync() {
  for (Warp &warp : warps)
    ++warp.syncs;
}

void ThreadBlock::checkMembers(Thread &thread, u32 members, Site site) {
  if (!(members >> thread.lane() & 1))
    fail(formatv("{0}: expected its own lane among the lanes of the collective, got lanes {1:x8}",
                 nameThreads({&thread}), members),
         site);
  size_t warpThreads = threadsOfWarp(thread).size();
  if (warpThreads < 32 && members >> warpThreads)
    fail(formatv("{0}: expected a collective of the {1} threads of its warp, got lanes {2:x8}", nameThreads({&thread}),
                 warpThreads, members),
         site);
}

/// The collective that the thread takes part in; a new one if the thread is the first. Two collectives that each need a
/// thread waiting at the other can never complete.
ThreadBlock::Collective &ThreadBlock::joinCollective(Thread &thread, u32 members, EmulatedCombine combine, Site site) {
  Warp &warp = warpOf(thread);
  for (Collective &other : warp.collectives) {
    if (other.members == members && other.combine == combine && other.site == site)
      return other;
    if (!(other.members >> thread.lane() & 1) || !(members & other.arrived))
      continue;
    std::vector<const Thread *> elsewhere;
    for (const Thread &candidate : threadsOfWarp(thread))
      if (other.arrived >> candidate.lane() & 1)
        elsewhere.push_back(&candidate);
    fail(nameThreads({&thread}) + " takes part in this collective, but others of its warp wait at another one", site,
         elsewhere);
  }
  return warp.collectives.emplace_back(Collective{members, 0, combine, site});
}

void ThreadBlock::syncWarp(Thread &thread, u32 members, void *lane, EmulatedCombine combine, Site site) {
  arriveAt(thread, site);
  checkMembers(thread, members, site);
  Collective &collective = joinCollective(thread, members, combine, site);
  Warp &warp = warpOf(thread);
  collective.arrived |= 1u << thread.lane();
  warp.lanes[thread.lane()] = lane;
  thread.state = Thread::State::AtCollective;
  if (members & warp.finished) {
    reportLeft(site, threadsOfWarp(thread));
    scheduler->unwind();
  }
  if (collective.arrived != members)
    return scheduler->wait(thread);
  complete(thread, collective);
}

void ThreadBlock::complete(Thread &thread, Collective &collective) {
  Warp &warp = warpOf(thread);
  void *lanes[32] = {};
  SmallVector<Thread *, 32> others;
  for (Thread &member : threadsOfWarp(thread)) {
    if (!(collective.members >> member.lane() & 1))
      continue;
    lanes[member.lane()] = warp.lanes[member.lane()];
    if (&member != &thread)
      others.push_back(&member);
  }
  if (const char *message = collective.combine(lanes))
    fail(nameThreads({&thread}) + ": " + message, collective.site);
  // A collective that moves no data is a synchronisation.
  if (llvm::none_of(lanes, [](void *lane) { return lane; }))
    ++warp.syncs;
  warp.collectives.erase(&collective);
  scheduler->release(others);
  thread.state = Thread::State::Running;
}

void ThreadBlock::syncWarpgroup(Thread &thread, void *lane, EmulatedCombine combine, Site site) {
  arriveAt(thread, site);
  MutableArrayRef<Thread> threads = threadsOfWarpgroup(thread);
  if (threads.size() < warpgroupThreads)
    fail(formatv("{0}: expected a warpgroup of {1} threads, got {2}", nameThreads({&thread}), warpgroupThreads,
                 threads.size()),
         site);
  Warpgroup &warpgroup = warpgroupOf(thread);
  if (warpgroup.arrived > 0 && (warpgroup.combine != combine || warpgroup.site != site)) {
    std::vector<const Thread *> elsewhere;
    for (const Thread &other : threads)
      if (warpgroup.lanes[other.thread % warpgroupThreads])
        elsewhere.push_back(&other);
    fail(nameThreads({&thread}) + " takes part in this collective, but others of its warpgroup wait at another one",
         site, elsewhere);
  }
  warpgroup.combine = combine;
  warpgroup.site = site;
  warpgroup.lanes[thread.thread % warpgroupThreads] = lane;
  thread.state = Thread::State::AtCollective;
  if (llvm::any_of(threads, [](const Thread &other) { return other.state == Thread::State::Finished; })) {
    reportLeft(site, threads);
    scheduler->unwind();
  }
  if (++warpgroup.arrived < warpgroupThreads)
    return scheduler->wait(thread);

  // A copy on this thread's stack, where checked accesses may read it.
  void *lanes[warpgroupThreads];
  llvm::copy(warpgroup.lanes, lanes);
  warpgroup = Warpgroup();
  if (const char *message = combine(lanes))
    fail(nameThreads({&thread}) + ": " + message, site);
  SmallVector<Thread *, warpgroupThreads> others;
  for (Thread &other : threads)
    if (&other != &thread)
      others.push_back(&other);
  scheduler->release(others);
  thread.state = Thread::State::Running;
}

void ThreadBlock::pause(Thread &thread, Site site) {
  arriveAt(thread, site);
  if (scheduler->yield(thread)) {
    acquire(thread); // the write that it waited for may establish any order
    return;
  }
  fail(nameThreads({&thread}) + " waits here for a write that no thread makes" +
           (mayWaitForBlocks() ? "" : " (only blocks of a cooperative launch may wait for each other)"),
       site);
}

bool ThreadBlock::mayWaitForBlocks() const {
  const EmulatedLaunch &launch = scheduler->currentLaunch();
  return launch.options.cooperative || launch.grid.count() == launch.options.cluster;
}

void ThreadBlock::pauseForRank(Thread &thread, u32 turn, const u32 *stop, Site site) {
  arriveAt(thread, site);
  if (__atomic_load_n(stop, __ATOMIC_RELAXED) != 0)
    fail(nameThreads({&thread}) + " waits here for another rank, which has failed", site);
  // Threads that poll call this often, and the clock takes as long as all else here.
  if (turn % 64 == 0) {
    auto now = std::chrono::steady_clock::now();
    if (turn == 0)
      thread.waitsSince = now;
    double patience = scheduler->currentLaunch().options.rankPatience;
    if (now - thread.waitsSince > std::chrono::duration<double>(patience))
      fail(formatv("{0} waits here for another rank, which has written nothing for {1} seconds", nameThreads({&thread}),
                   patience)
               .str(),
           site);
  }
  scheduler->yieldToRanks(thread);
  acquire(thread); // likewise
}

void ThreadBlock::acquire(const Thread &thread) { cluster->clocks.followEverything(warpNumber(thread)); }

void *ThreadBlock::staticShared(Thread &thread, const void *tag, u64 bytes, u64 alignment, Site site) {
  if (void *variable = shared.variable(tag, bytes, alignment))
    return variable;
  fail(formatv("expected at most {0} bytes of static shared memory, got a variable of {1} bytes (aligned to "
               "{2}) more",
               SharedMemory::maxStaticBytes, bytes, alignment),
       site);
}

void *ThreadBlock::dynamicShared(Thread &thread, u64 bytes, Site site) {
  if (shared.dynamicBytes() < bytes)
    fail(formatv("expected a launch with at least {0} bytes of dynamic shared memory, got {1}", bytes,
                 shared.dynamicBytes()),
         site);
  return shared.dynamicData();
}

} // namespace kiln
