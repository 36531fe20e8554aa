//===- RungRunner.h - compiles, checks and times a rung ---------------------===//
#pragma once

#include "tools/ladder/RungResult.h"

#include "tools/ladder/LadderOptions.h"
#include "tools/session/CompiledPlan.h"
#include "tools/session/Engine.h"
#include "tools/session/KeptWeights.h"

#include "kernels/targets/Target.h"
#include "runtime/generation/PlanModel.h"
#include "support/files/Leftovers.h"

#include <atomic>

namespace kiln {

/// The logits of each sequence.
using Logits = std::vector<std::vector<float>>;

/// The ops of the steps of @prefill.
const Block &promptSteps(const Module &module);
/// Whether a step's product rounds its factors to tf32.
bool isRounded(const Op &step);

class RungRunner {
public:
  /// Error: errors of the model, its weights, the text, or opening the device.
  static Expected<std::unique_ptr<RungRunner>> create(const LadderOptions &command);

  /// May be called while another thread runs the previous rung. Error: errors of the strategy, or of a kernel.
  Expected<CompiledPlan> compile(const LadderPart &part, const Rung &rung);

  /// Checks and times a rung that `compile` returned; a failure of either is in the result.
  RungResult run(const LadderPart &part, const Rung &rung, Expected<CompiledPlan> compiled);

  StringRef deviceName() const { return name; }
  /// Why rungs are slower there, or null.
  const LadderReasons *reasons() const { return findLadderReasons(device->model()); }
  int64_t context() const { return modelContext; } ///< tokens
  const Target &target() const { return *theTarget; }

private:
  /// A plan on the device. Members go in order: the model uses the executor.
  struct Loaded {
    const Module &module;
    std::unique_ptr<Executor> executor;
    std::unique_ptr<PlanModel> model;
  };

  explicit RungRunner(const LadderOptions &command) : command(command) {}

  /// The prompts of a part: arbitrary ids, as in SampleCall.
  std::vector<std::vector<int32_t>> promptsOf(const LadderPart &part) const;
  int64_t newTokens(const LadderPart &part) const;
  int64_t mostTokens(const LadderPart &part) const;
  Expected<CompiledPlan> compile(const CompileRequest &request);
  Expected<Loaded> load(const CompiledPlan &compiled, const WeightSource &weights, Executor::Options capacity);
  Expected<RungResult> tryRung(const LadderPart &part, const Rung &rung, const CompiledPlan &compiled);

  Expected<const Logits *> reference(const LadderPart &part, const Rung &rung);
  Error compare(Loaded &loaded, const LadderPart &part, const Logits &expected, LogitError &error);
  /// Adds the differences of logits.
  static void addDifferences(const Logits &expected, const Logits &actual, LogitError &error);
  Expected<double> perplexity(const LadderPart &part, const Rung &rung);

  // In RungTiming.cpp.
  Error time(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeSteps(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeCall(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeGeneration(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeFirstToken(const CompiledPlan &compiled, const LadderPart &part, RungResult &result);
  Error timeBatch(const CompiledPlan &compiled, const LadderPart &part, const Rung &rung, const Logits &expected,
                  RungResult &result);
  Error timeRuns(RungResult &result, function_ref<Error()> run) const;
  Error findKernel(Loaded &loaded, ArrayRef<KernelLaunch> launches, RungResult &result);

  const LadderOptions &command;
  std::optional<Temporary> work; ///< directory of plans
  std::atomic<int> plans = 0;    ///< compiled so far
  std::string name;
  bool timed = true; ///< whether the device's times mean anything
  int64_t modelContext = 0, vocabulary = 1;
  const Target *theTarget = nullptr;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Device>> others; ///< besides it, for parts that need several
  std::optional<KernelTimer> timer;
  std::unique_ptr<KeptWeights> weights;
  std::map<std::string, Logits> references;
  std::optional<ModelSource> scored; ///< the model whose perplexity is measured
  std::vector<int32_t> text;
};

} // namespace kiln
