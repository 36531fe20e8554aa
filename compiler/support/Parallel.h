//===- Parallel.h - loops and work on several threads -------------------------===//
//
// A machine may give fewer threads than it has cores, or none: limits of users and containers (ulimit -u), or of memory
// (ulimit -v), in which each thread needs room for its stack. All here does with what there is; with no further thread
// the calling one does the work.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <thread>

namespace kiln {

/// How many threads parallelFor has, the caller's among them.
size_t parallelThreads();

/// Calls `body` with 0, 1, ..., count-1 in no particular order, at the same time on the caller's thread and those that
/// wait for such work; returns when all calls have. A loop inside a loop runs on the thread that begins it.
void parallelFor(size_t count, function_ref<void(size_t)> body);

/// A thread that runs `body`; none if the system gives none, and then `body` has not run.
std::optional<std::thread> startThread(std::function<void()> body);

} // namespace kiln
