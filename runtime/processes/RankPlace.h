//===- RankPlace.h - which rank of a model this process is ----------------===//
//
// Launchers of parallel programs tell a process by its environment which of how many it is: OpenMPI's mpirun, those
// that follow PMI, such as MPICH's mpiexec and Slurm's srun, and torchrun. Their libraries are not needed for that.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A process among those that a launcher has started.
struct RankPlace {
  int64_t rank = 0, ranks = 1;
  int64_t localRank = 0;  ///< among those on this host
  std::string variable;   ///< of the environment, which says so; for messages
  std::string job;        ///< the same in all of them, and in no other ones that run at the same time
  bool isWatched = false; ///< started by RankProcesses, which reports how processes end
};

/// The place of this process; nothing if it is the only one. Error: variables that contradict each other, or that say
/// that the processes are on several hosts.
Expected<std::optional<RankPlace>> findRankPlace();

/// The variables by which RankProcesses tells a process its place. They may also be set by hand.
inline constexpr const char *rankVariable = "KILN_RANK";
inline constexpr const char *ranksVariable = "KILN_RANKS";
inline constexpr const char *jobVariable = "KILN_JOB";
inline constexpr const char *watcherVariable = "KILN_WATCHER"; ///< the id of the process that watches

} // namespace kiln
