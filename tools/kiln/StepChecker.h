//===- StepChecker.h - --check=reference ------------------------------------===//
#pragma once

#include "reference/Evaluator.h"
#include "runtime/Executor.h"

namespace kiln {

/// Compares what every step of a plan leaves behind with the reference executor's values for the same IR values, on the
/// same arguments and states, and reports the first step that differs. Calls must work on the whole batch.
class StepChecker {
public:
  /// `module` holds the functions of the plan, fused the same way; `loadWeight` gives its weights. Both must outlive the
  /// checker, and so must the executor.
  StepChecker(const Module &module, WeightLoader<float> loadWeight, Executor &executor);

  /// Begins to observe the executor.
  void attach();

  int64_t stepsChecked() const { return checked; }

private:
  Error onCall(const Executor::Call &call);
  Error onStep(const PlanFunction &function, size_t step);
  Error compare(const PlanFunction &function, const PlanStep &step, StringRef name, const Tensor<float> &expected);

  Evaluator<float> evaluator;
  Executor &executor;
  std::map<std::string, Tensor<float>> expected; ///< by SSA name, of the current call
  int64_t checked = 0;
};

} // namespace kiln
