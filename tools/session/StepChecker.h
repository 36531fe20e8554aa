//===- StepChecker.h - the checks of --check=reference --------------------===//
#pragma once

#include "reference/Evaluator.h"
#include "runtime/execution/Executor.h"
#include "tools/session/Tolerance.h"

namespace kiln {

/// Compares the results of every step of a plan, intermediate values and states, with the reference executor's results
/// for the same inputs, and reports the first step that differs. A step's inputs are the results of earlier steps on
/// the device, so that errors do not add up and the tolerance is that of a single step.
class StepChecker {
public:
  /// `module` holds the functions of the plan, fused the same way. `loadWeight` gives its weights, which the checker
  /// rounds to their dtype. Both, and the executor, must outlive the checker.
  StepChecker(const Module &module, WeightLoader<float> loadWeight, Executor &executor);

  /// Starts to observe the executor: the last step of a call reports the first step that differs.
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
  std::map<std::string, std::vector<float>> actual; ///< by name: the results of the current call's steps in buffers
  int64_t checked = 0;
};

} // namespace kiln
