// Checks of accesses, in kernels that are compiled with checked accesses.
#include "runtime/device/emulated/block/BlockCluster.h"
#include "runtime/device/emulated/block/Report.h"
#include "runtime/device/emulated/block/Scheduler.h"
#include "runtime/device/emulated/compile/SourceLine.h"

#include <cstring>
#include <dlfcn.h>

namespace kiln {

void Thread::checkAccess(const void *address, u64 bytes, EmulatedAccess access, const void *code) {
  owner->checkAccess(*this, address, bytes, access, code);
}
void Thread::checkOperand(const void *address, u64 bytes, const void *code) {
  owner->checkOperand(*this, address, bytes, code);
}

AccessTime ThreadBlock::now(const Thread &thread, const void *code) {
  return cluster->clocks.now(static_cast<u32>(warpNumber(thread) * 32 + thread.lane()), warpOf(thread).syncs, code);
}

void ThreadBlock::checkAccess(Thread &thread, const void *address, u64 bytes, EmulatedAccess access, const void *code) {
  if (shared.contains(address))
    checkSharedAccess(thread, shared, address, bytes, access, now(thread, code));
  else
    checkGlobalAccess(thread, address, bytes, access, code);
}

static Site siteOf(const SourceLine &line) { return {line.file.empty() ? nullptr : line.file.c_str(), line.line}; }

void ThreadBlock::failAt(Thread &thread, const void *code, const Twine &message) {
  SourceLine line = sourceLineOf(code, *scheduler->currentLaunch().kernel);
  fail(nameThreads({&thread}) + " " + message, siteOf(line));
}

void ThreadBlock::checkOperand(Thread &thread, const void *address, u64 bytes, const void *code) {
  if (!shared.contains(address))
    failAt(thread, code, "expected the operand of a product in shared memory");
  AccessTime time = now(thread, code);
  time.stamp = AccessStamp::of(AccessStamp::Warp, warpNumber(thread), time.stamp.time, time.warpSyncs);
  checkSharedAccess(thread, shared, address, bytes, EmulatedAccess::Read, time);
}

void ThreadBlock::checkSharedAccess(Thread &thread, SharedMemory &memory, const void *address, u64 bytes,
                                    EmulatedAccess access, const AccessTime &time) {
  const AccessKind &kind = kindOf(access);
  StringRef verb = kind.does;
  if (std::optional<std::string> outside = memory.outside(address, bytes))
    failAt(thread, time.code, verb + " " + Twine(bytes) + " bytes " + *outside);
  // Before the bytes of a copy have arrived, their place is as if nothing had written it: a race says more then.
  if (kind.reads && cluster->copies.empty() && holdsPoison(address, bytes))
    failAt(thread, time.code, verb + " shared memory that nothing has written");
  noteSharedAccess(thread, memory, address, bytes, access, verb, time);
  if (kind.reads && !cluster->copies.empty() && holdsPoison(address, bytes))
    failAt(thread, time.code, verb + " shared memory that nothing has written");
}

std::string ThreadBlock::describe(const AccessHistory::Race &race) const {
  if (race.stamp.kind() == AccessStamp::Copy)
    return "that a copy writes, without a wait for the copy's barrier";
  auto has = [&](const Twine &who) {
    return ("that " + who + " " + kindOf(race.access).hasDone + " since the last barrier").str();
  };
  if (race.stamp.kind() == AccessStamp::Warps)
    return has("threads of several warps have");
  const bool isThread = race.stamp.kind() == AccessStamp::Thread;
  const size_t warp = isThread ? race.stamp.index() / 32 : race.stamp.index(), ofBlock = warp % warps.size();
  const ThreadBlock &block = *cluster->allBlocks()[warp / warps.size()];
  const std::string of = &block == this ? "" : " of " + block.name();
  if (isThread)
    return has("thread " + Twine(ofBlock * 32 + race.stamp.index() % 32) + of + " has");
  return has((race.stamp.kind() == AccessStamp::Lanes ? "threads of warp " : "warp ") + Twine(ofBlock) + of +
             (race.stamp.kind() == AccessStamp::Lanes ? " have" : " has"));
}

void ThreadBlock::noteSharedAccess(Thread &thread, SharedMemory &memory, const void *address, u64 bytes,
                                   EmulatedAccess access, StringRef verb, const AccessTime &time) {
  auto race = memory.noteAccess(address, bytes, access, time);
  if (!race)
    return;
  const EmulatedKernel &kernel = *scheduler->currentLaunch().kernel;
  SourceLine line = sourceLineOf(time.code, kernel), other = sourceLineOf(race->code, kernel);
  failWithNote(nameThreads({&thread}) + " " + verb + " shared memory " + describe(*race), siteOf(line),
               "the other access is here", siteOf(other));
}

/// Whether an address lies in the program or a library, like tables of functions and constants.
static bool isInProgram(const Thread &thread, const void *address) {
  // The fast path: tables of the primitives' virtual functions are read most often.
  const char *functions;
  std::memcpy(&functions, static_cast<const void *>(static_cast<const EmulatedThread *>(&thread)), sizeof(functions));
  Dl_info info;
  return static_cast<size_t>(static_cast<const char *>(address) - functions) < 32 * sizeof(void *) ||
         dladdr(address, &info);
}

void ThreadBlock::checkGlobalAccess(Thread &thread, const void *address, u64 bytes, EmulatedAccess access,
                                    const void *code) {
  const AccessKind &kind = kindOf(access);
  StringRef verb = kind.does;
  const TensorRanges &tensors = scheduler->currentLaunch().tensors;
  if (const TensorRange *tensor = tensors.find(address, bytes)) {
    if (kind.writes && !tensor->isWritten)
      failAt(thread, code, verb + " '" + tensor->name + "', which is an input of the kernel");
    if (kind.reads && holdsPoison(address, bytes))
      failAt(thread, code,
             verb + " what nothing has written, in '" + tensor->name + "' at offset " +
                 Twine(static_cast<const char *>(address) - tensor->begin));
    if (kind.reads && !thread.hasWaitedForDependencies && scheduler->currentLaunch().written.holdsAny(address, bytes))
      failAt(thread, code,
             verb + " '" + tensor->name +
                 "' before waitForDependencies(), where an earlier kernel of the call has written");
    // Earlier kernels may still read or write there. Mailboxes and counters, whose accesses are atomic, are for that.
    if (access == EmulatedAccess::Write && !thread.hasWaitedForDependencies &&
        !scheduler->currentLaunch().options.startsAfterAll)
      failAt(thread, code,
             verb + " '" + tensor->name +
                 "' before waitForDependencies(), while earlier kernels of the call may still need it");
    if (kind.writes)
      scheduler->noteWrite(address, bytes);
    return;
  }
  // Other stacks hold the objects of other lanes, which the last lane at a collective reads and writes.
  if (!scheduler->isOnStack(address) && !isInProgram(thread, address))
    failAt(thread, code, verb + " " + Twine(bytes) + " bytes " + tensors.describeOutside(address, bytes));
}

} // namespace kiln
