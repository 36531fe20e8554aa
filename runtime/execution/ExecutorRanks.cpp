// Executors of a plan for several ranks: they reach each other's memory, in one process or in several.
#include "runtime/execution/Executor.h"

#include "support/Diagnostic.h"

namespace kiln {

Expected<std::vector<std::unique_ptr<Executor>>> Executor::createRanks(ArrayRef<Device *> devices, const Plan &plan,
                                                                       const KernelFiles &files,
                                                                       const WeightSource &weights,
                                                                       const Options &options) {
  std::vector<std::unique_ptr<Executor>> ranks;
  for (Device *device : devices) {
    if (Error error = prepare(*device, plan, options, devices.size()).moveInto(ranks.emplace_back()))
      return error;
    ranks.back()->rank = static_cast<int64_t>(ranks.size()) - 1;
  }
  for (auto &executor : ranks)
    if (Error error = loadWeights(executor, weights))
      return error;
  for (auto &executor : ranks)
    if (Error error = executor->finishCreation(files))
      return error;
  if (Error error = linkRanks(ranks))
    return error;
  if (Error error = devices.front()->makeCurrent())
    return error;
  return ranks;
}

Expected<std::unique_ptr<Executor>> Executor::createRank(Device &device, int64_t rank, const Plan &plan,
                                                         const KernelFiles &files, const WeightSource &weights,
                                                         const Options &options, ShareHandles share) {
  std::unique_ptr<Executor> executor;
  if (Error error = prepare(device, plan, options, static_cast<size_t>(plan.ranks)).moveInto(executor))
    return error;
  executor->rank = rank;
  executor->areProcesses = true;
  if (Error error = loadWeights(executor, weights))
    return error;
  if (Error error = executor->finishCreation(files))
    return error;
  if (Error error = executor->linkProcesses(share))
    return error;
  return executor;
}

/// Of a lane.
int64_t Executor::inboxBytes() const {
  int64_t most = 0;
  for (const PlanFunction &function : thePlan.functions)
    for (const PlanStep &step : function.steps)
      most = std::max(most, step.inbox);
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(most), 256)); // as Device::allocate
}

/// Allocates what other ranks write to: the inbox of all steps, and behind it the mailboxes of each.
Error Executor::allocateInbox() {
  constexpr uint64_t line = 128;
  inboxBytesOfLane = inboxBytes();
  int64_t bytes = std::max<int64_t>(inboxBytesOfLane * lanes(), 1);
  for (const PlanFunction &function : thePlan.functions)
    for (const PlanStep &step : function.steps)
      if (step.sharesMailboxes()) {
        bytes = static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(bytes), line));
        mailboxOffsets[&step] = bytes;
        bytes += step.mailboxes;
      }
  if (Error error = allocateForRanks(bytes, "inbox").moveInto(inbox))
    return error;
  if (Error error = DeviceMemory::allocateHost(theDevice, sizeof(uint32_t), "ranks").moveInto(stop))
    return error;
  __atomic_store_n(reinterpret_cast<uint32_t *>(stop.address()), 0, __ATOMIC_SEQ_CST);
  // Nothing may be written to it before it is zero.
  if (Error error = theDevice.clear(inbox.address(), inbox.bytes()))
    return error;
  return theDevice.synchronize();
}

Error Executor::linkRanks(ArrayRef<std::unique_ptr<Executor>> ranks) {
  std::vector<char *> inboxes, arenas;
  for (const auto &executor : ranks) {
    if (Error error = executor->theDevice.makeCurrent())
      return error;
    for (const auto &other : ranks)
      if (other != executor)
        if (Error error = executor->theDevice.reachMemoryOf(other->theDevice))
          return error;
    if (Error error = executor->allocateInbox())
      return error;
    inboxes.push_back(executor->inbox.address());
    arenas.push_back(executor->arena.address());
  }
  for (const auto &executor : ranks) {
    executor->inboxes = inboxes;
    executor->arenas = arenas;
  }
  return Error::success();
}

/// Memory that all ranks reach.
Expected<DeviceMemory> Executor::allocateForRanks(int64_t bytes, StringRef what) {
  return areProcesses ? DeviceMemory::allocateShared(theDevice, bytes, what)
                      : DeviceMemory::allocate(theDevice, bytes, what);
}

Error Executor::linkProcesses(ShareHandles share) {
  if (Error error = allocateInbox())
    return error;
  RankHandles own;
  if (Error error = theDevice.exportMemory(inbox.address()).moveInto(own.inbox))
    return error;
  if (Error error = theDevice.exportMemory(arena.address()).moveInto(own.arena))
    return error;
  Expected<std::vector<RankHandles>> all = share(own);
  if (!all)
    return all.takeError();
  for (const auto &[number, handles] : llvm::enumerate(*all)) {
    if (static_cast<int64_t>(number) == rank) {
      inboxes.push_back(inbox.address());
      arenas.push_back(arena.address());
      continue;
    }
    for (auto [handle, size, what, addresses] : {std::tuple(&handles.inbox, inbox.bytes(), "inbox", &inboxes),
                                                 {&handles.arena, arena.bytes(), "arena", &arenas}}) {
      auto memory = DeviceMemory::import(theDevice, *handle, size, what);
      if (!memory)
        return memory.takeError();
      addresses->push_back(memory->address());
      imported.push_back(std::move(*memory));
    }
  }
  return Error::success();
}

Error Executor::leaveRanks() {
  Error error = theDevice.synchronize();
  graphs.clear();
  imported.clear();
  return error;
}

void Executor::stopWaiting() {
  if (stop.address())
    __atomic_store_n(reinterpret_cast<uint32_t *>(stop.address()), 1, __ATOMIC_SEQ_CST);
}

} // namespace kiln
