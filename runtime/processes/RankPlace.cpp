#include "runtime/processes/RankPlace.h"

#include "support/Diagnostic.h"

#include <cstdlib>
#include <unistd.h>

namespace kiln {

namespace {

/// How a launcher tells a process its place.
struct LauncherVariables {
  const char *rank, *ranks;
  const char *localRank, *localRanks; ///< null: it has none
  SmallVector<const char *, 2> job;   ///< together, they name the job; where none is set, the parent process does
  const char *sign = nullptr;         ///< another variable that it sets, where the names of these are everybody's
};

const LauncherVariables allLaunchers[] = {
    {rankVariable, ranksVariable, nullptr, nullptr, {jobVariable}},
    {"OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"}},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
     "TORCHELASTIC_RUN_ID"},
};

/// The number in a variable; nothing if it is not set. Error: it is no number from `least`.
Expected<std::optional<int64_t>> numberIn(const char *variable, int64_t least) {
  const char *text = variable ? std::getenv(variable) : nullptr;
  if (!text)
    return std::nullopt;
  int64_t number = 0;
  if (StringRef(text).getAsInteger(10, number) || number < least)
    return makeError(Twine(variable) + " of the environment: expected a number from " + Twine(least) + ", got '" +
                     text + "'");
  return number;
}

std::string jobOf(const LauncherVariables &names) {
  std::string job = std::string(names.rank) + "\n";
  bool isNamed = false;
  for (const char *variable : names.job)
    if (const char *text = std::getenv(variable)) {
      job += std::string(text) + "\n";
      isNamed = true;
    }
  return isNamed ? job : job + std::to_string(getppid());
}

/// Error: it is none of the numbers below that of all processes.
Error checkRank(const RankPlace &place) {
  if (place.rank < place.ranks)
    return Error::success();
  return makeError(place.variable + " of the environment: expected a rank below " + Twine(place.ranks) + ", got " +
                   Twine(place.rank));
}

Expected<std::optional<RankPlace>> placeBy(const LauncherVariables &names) {
  if (names.sign && !std::getenv(names.sign))
    return std::nullopt;
  auto rank = numberIn(names.rank, 0), ranks = numberIn(names.ranks, 1), localRank = numberIn(names.localRank, 0),
       localRanks = numberIn(names.localRanks, 1);
  for (auto *number : {&rank, &ranks, &localRank, &localRanks})
    if (!*number) {
      Error error = number->takeError();
      for (auto *other : {&rank, &ranks, &localRank, &localRanks})
        if (other != number)
          llvm::consumeError(other->takeError());
      return error;
    }
  if (!*rank || !*ranks || **ranks == 1)
    return std::nullopt;
  if (*localRanks && **localRanks != **ranks)
    return makeError(Twine(names.localRanks) + " of the environment: expected all " + Twine(**ranks) +
                     " ranks on one host, got " + Twine(**localRanks) + " here; several hosts are not supported");
  RankPlace place;
  place.rank = **rank;
  place.ranks = **ranks;
  place.localRank = localRank->value_or(**rank);
  place.variable = names.rank;
  place.job = jobOf(names);
  if (Error error = checkRank(place))
    return error;
  return place;
}

} // namespace

Expected<std::optional<RankPlace>> findRankPlace() {
  for (const LauncherVariables &names : allLaunchers) {
    auto place = placeBy(names);
    if (!place || *place) {
      const char *watcher = std::getenv(watcherVariable);
      if (place && watcher && names.rank == StringRef(rankVariable))
        (*place)->isWatched = std::to_string(getppid()) == watcher;
      return place;
    }
  }
  return std::nullopt;
}

} // namespace kiln
