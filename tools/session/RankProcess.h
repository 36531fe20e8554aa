//===- RankProcess.h - this process as one rank of a model ----------------===//
#pragma once

#include "tools/session/Engine.h"

#include "runtime/processes/RankGroup.h"

namespace kiln {

/// An error that another process reports.
class ToldError : public ErrorInfo<ToldError> {
public:
  static char ID;

  explicit ToldError(int exitCode) : exitCode(exitCode) {}
  void log(raw_ostream &os) const override { os << "another process has reported an error"; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  const int exitCode; ///< that this process should have
};

/// What a command says about its ranks.
struct RankRequest {
  std::string version; ///< of the program, to the commit
  std::string model;
  std::optional<int64_t> ranks; ///< --ranks
  bool startsProcesses = false; ///< --processes
};

/// Calls `work` in this process: as one of several ranks with their group, if a launcher has started this process so,
/// else with null. With startsProcesses, and without such a launcher, has a process of each rank do the work instead.
/// Error: that of the rank that failed first, in all processes; a ToldError where another one reports it.
Error runAsRank(const RankRequest &request, function_ref<Error(RankGroup *group)> work);

/// The devices of a model on the devices that --device names: of a group, this rank's one; without, those of
/// resolveDevices. Error: a UsageError about devices that there are not for all ranks.
Expected<std::vector<std::string>> resolveDevices(StringRef names, const RankGroup *group);

/// Error: a UsageError if the model has another number of ranks than processes were started.
Error checkRanks(int64_t ranks, const RankGroup &group);

/// For ranks that are threads of one process. Error: a UsageError if a launcher has started several.
Error refuseRankProcesses();

/// Does what the first rank of the group in `options` does, until it has finished.
Error followRank(const ModelSource &source, EngineOptions options);

/// The engine of this rank of the group in `options`. When the work is done, Engine::finish must be called. Error: as
/// of Executor::createRank; ranks whose plans, weights or arguments differ, or that are on one GPU.
Expected<std::unique_ptr<Engine>> openRankProcess(const ModelSource &source, const EngineOptions &options,
                                                  std::unique_ptr<Device> device, const Plan &plan,
                                                  const KernelFiles &files, const Executor::Options &capacity);

} // namespace kiln
