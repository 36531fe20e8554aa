//===- Parallel.h - loops and work on several threads -------------------------===//
//
// A machine may give fewer threads than it has cores, or none, because of limits of users and containers (ulimit -u),
// or of memory (ulimit -v), as each thread needs a stack. These functions use the threads that they get; without any,
// the calling thread does the work.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <thread>

namespace kiln {

/// The number of threads of parallelFor, including the caller's.
size_t parallelThreads();

/// Calls `body` with 0, 1, ..., count-1 in no particular order, on the caller's thread and the pool's threads, and
/// returns when all calls have returned. A loop inside a loop runs on the thread that begins it.
void parallelFor(size_t count, function_ref<void(size_t)> body);

/// Calls `work` with 0, 1, ..., count-1, each in a thread of its own, 0 in the calling thread, and returns when all
/// calls have returned: for work that waits, such as for devices. What the system refuses a thread, the calling thread
/// does after its own. Errors: those of all calls.
Error runThreads(size_t count, function_ref<Error(size_t)> work);

/// Starts a thread that runs `body`. Returns nothing if the system refuses the thread; then `body` has not run.
std::optional<std::thread> startThread(std::function<void()> body);

} // namespace kiln
