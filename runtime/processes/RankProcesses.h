//===- RankProcesses.h - starting and watching a process for each rank ----===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The exit code of a rank that has failed and leaves it to another one, or to who watches, to tell why.
inline constexpr int untoldExitCode = 3;

/// Starts a process of this program for each of some ranks, with these arguments (without the program's name), and
/// waits until all have ended. The first has the standard input. When one fails, the others get a few seconds to end,
/// and are killed then; when this process ends in any way, so do they. Returns the exit code of the rank that has
/// reported errors. Error: a process that cannot be started, or one that has ended by a signal, while none has told
/// why. Call it before this process has threads.
Expected<int> runRankProcesses(int64_t ranks, ArrayRef<std::string> arguments);

} // namespace kiln
