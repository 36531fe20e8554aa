//===- StepChecker.h - --check=reference ------------------------------------===//
#pragma once

#include "reference/Evaluator.h"
#include "runtime/execution/Executor.h"
#include "tools/session/Tolerance.h"

namespace kiln {

/// Compares what every step of a plan leaves behind, intermediate values and states, with what the reference executor
/// makes of the same inputs, and reports the first step that differs. The inputs of a step are what the device's steps
/// before it have left, so that errors do not add up and the tolerance is that of one step.
class StepChecker {
public:
  /// `module` holds the functions of the plan, fused the same way; `loadWeight` gives its weights, which are rounded to
  /// their dtype here. Both must outlive the checker, and so must the executor.
  StepChecker(const Module &module, WeightLoader<float> loadWeight, Executor &executor);

  /// Begins to observe the executor: the last step of a call reports the first that differs.
  void attach();

  int64_t stepsChecked() const { return checked; }

private:
  Error onCall(const Executor::Call &call);
  Error takeStates(const Executor::Call &call);
  Error onStep(const PlanFunction &function, size_t step);
  Error compareCall(const PlanFunction &function);
  Error compareResult(const PlanFunction &function, size_t step, const Value &value, const Tensor<float> &reference);

  Evaluator<float> evaluator;
  Executor &executor;
  std::vector<Tensor<float>> arguments;             ///< of the current call
  std::map<std::string, std::vector<float>> actual; ///< by name: what the current call's steps have left in buffers
  int64_t checked = 0;
};

} // namespace kiln
