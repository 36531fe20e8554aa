//===- Evaluator.h - runs a module on the CPU -------------------------------===//
//
// The oracle of every numeric test, and the device when there is no GPU. It runs a module at any stage of the
// pipeline, op by op as each record says, in Real (float or double) whatever the dtypes in the IR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"
#include "ops/Tensor.h"

namespace kiln {

/// The packed elements of a weight: what its recipe makes of the checkpoint, in Real.
template <class Real> using WeightLoader = std::function<Expected<Tensor<Real>>(const Value &weight)>;

template <class Real> class Evaluator {
public:
  /// The module must be verified and outlive the evaluator. Weights are loaded at their first use and kept.
  Evaluator(const Module &module, WeightLoader<Real> loadWeight) : module(module), loadWeight(std::move(loadWeight)) {}

  /// Runs a function. Dims take their values from the arguments' shapes; states keep theirs from call to call and
  /// are allocated, filled with zeros, when first used.
  /// Error: no such function, arguments that do not fit its signature or the dims' bounds, a batch other than
  /// that of the states, or what an op reports (a token id out of range).
  Expected<std::vector<Tensor<Real>>> run(StringRef function, ArrayRef<Tensor<Real>> arguments);
  Expected<std::vector<Tensor<Real>>> run(Entry entry, ArrayRef<Tensor<Real>> arguments) {
    return run(entryName(entry), arguments);
  }

  /// Called with each value that an op of a function's body (not of a fused region) has computed; of an op that writes
  /// a state, with the whole state. What it writes into the elements is what later ops see; its error ends the run.
  using ResultHook = std::function<Error(const Value &, const Tensor<Real> &)>;
  void setResultHook(ResultHook hook) { onResult = std::move(hook); }

  /// Forgets all states.
  void resetStates() { states.clear(); }
  /// Sets a state before a run, for tests.
  void setState(StringRef name, Tensor<Real> value) { states.insert_or_assign(name.str(), std::move(value)); }

private:
  using Values = DenseMap<const Value *, Tensor<Real>>;

  Expected<DimBinding> bindDims(const Function &function, ArrayRef<Tensor<Real>> arguments) const;
  Error runBlock(const Block &block, const DimBinding &dims, Values &values);
  /// Runs an op and forgets the values that die at it.
  Error runOp(const Op &op, const DimBinding &dims, ArrayRef<const Value *> dying, Values &values);
  Error runFused(const Op &op, const DimBinding &dims, ArrayRef<const Value *> dying, Values &values);
  Expected<Tensor<Real>> operand(const Value &value, const DimBinding &dims, const Values &values);
  Expected<Tensor<Real>> state(const Value &value, const DimBinding &dims);

  const Module &module;
  WeightLoader<Real> loadWeight;
  DenseMap<const Value *, Tensor<Real>> weights;
  std::map<std::string, Tensor<Real>> states;
  ResultHook onResult;
};

extern template class Evaluator<float>;
extern template class Evaluator<double>;

} // namespace kiln
