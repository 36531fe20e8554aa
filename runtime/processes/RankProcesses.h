//===- RankProcesses.h - starting and watching a process for each rank ----===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The exit code of a rank that has lost another one, and has not said so: who watches knows how that one ended.
inline constexpr int lostRankExitCode = 3;

/// Starts a process of this program for each of some ranks, with these arguments (without the program's name), and
/// waits until all have ended. The first has the standard input. When one fails, the others get a few seconds to end,
/// and are killed then; when this process ends in any way, so do they. Returns the exit code of the first rank, which
/// has reported errors. Error: a process that cannot be started, or one that has ended by a signal or without a
/// message. Call it before this process has threads.
Expected<int> runRankProcesses(int64_t ranks, ArrayRef<std::string> arguments);

} // namespace kiln
