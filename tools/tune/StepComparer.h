//===- StepComparer.h - comparing the results of two kernels --------------===//
#pragma once

#include "tools/session/StepChecker.h"

namespace kiln {

/// Records the inputs and results of a call's steps on one executor, and runs the same steps, one at a time, on other
/// executors of the same functions with different kernels.
class StepComparer {
public:
  /// Runs the call and records the steps.
  Error remember(Executor &executor, const Executor::Call &call, const std::set<size_t> &steps);

  /// Runs one of the steps alone on its recorded inputs, with its results poisoned first, as they were then. Describes
  /// the first result that differs by more than twice the tolerance of --check=reference or was not written; empty if
  /// there is none. Error: a failure of the device.
  Expected<std::string> difference(Executor &executor, const Executor::Call &call, size_t step) const;

private:
  struct Memory {
    std::string bytes;
    DType dtype = DType::F32;
  };
  struct Step {
    std::map<std::string, Memory> before, after; ///< by tensor; after: those that the step may write
  };

  std::map<size_t, Step> remembered;
};

} // namespace kiln
