//===- StepComparer.h - whether a kernel does what another does ---------------===//
#pragma once

#include "tools/session/StepChecker.h"

namespace kiln {

/// Remembers what steps of a call read and wrote with one executor, and gives the same to other executors of the same
/// functions in other kernels, one step at a time.
class StepComparer {
public:
  /// Runs the call and remembers the steps.
  Error remember(Executor &executor, const Executor::Call &call, const std::set<size_t> &steps);

  /// Runs one of the steps alone on what it read then, with its results poisoned before, as they were then. Returns
  /// what it leaves otherwise, by more than twice the tolerance of --check=reference, or leaves alone, in words; empty
  /// if nothing. Error: the device reports one.
  Expected<std::string> difference(Executor &executor, const Executor::Call &call, size_t step) const;

private:
  struct Memory {
    std::string bytes;
    DType dtype = DType::F32;
  };
  struct Step {
    std::map<std::string, Memory> before, after; ///< by tensor; after: those that it may write
  };

  std::map<size_t, Step> remembered;
};

} // namespace kiln
