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

/// The packed elements of a weight on a rank (0 if the module is for one): what its recipe makes of the checkpoint, in
/// Real.
template <class Real>
using WeightLoader = std::function<Expected<Tensor<Real>>(const Value &weight, int64_t rank)>;

template <class Real> class Evaluator {
public:
  /// The module must be verified and outlive the evaluator. Weights are loaded at their first use and kept.
  Evaluator(const Module &module, WeightLoader<Real> loadWeight)
      : module(module), loadWeight(std::move(loadWeight)), weights(module.ranks()), states(module.ranks()) {}

  /// The results of a function on each rank.
  using RankResults = std::vector<std::vector<Tensor<Real>>>;

  /// Runs a function on all ranks of the module, op by op, each op on one rank after the other. Dims take their values
  /// from the arguments' shapes; states keep theirs from call to call and are allocated, filled with zeros, when first
  /// used. Error: no such function, arguments that do not fit its signature or the dims' bounds, a batch other than
  /// that of the states, or what an op reports (a token id out of range).
  Expected<RankResults> runRanks(StringRef function, ArrayRef<Tensor<Real>> arguments);
  /// The same results, of which all ranks must have the same bits. Error: also, that they have not.
  Expected<std::vector<Tensor<Real>>> run(StringRef function, ArrayRef<Tensor<Real>> arguments);
  Expected<std::vector<Tensor<Real>>> run(Entry entry, ArrayRef<Tensor<Real>> arguments) {
    return run(entryName(entry), arguments);
  }

  /// Called on rank 0 with each value that an op of a function's body (not of a fused region) has computed; of an op
  /// that writes a state, with the whole state. What it writes into the elements is what later ops see; its error ends
  /// the run.
  using ResultHook = std::function<Error(const Value &, const Tensor<Real> &)>;
  void setResultHook(ResultHook hook) { onResult = std::move(hook); }

  /// Forgets all states.
  void resetStates() { states.assign(states.size(), {}); }
  /// Sets a rank's state before a run, for tests.
  void setState(StringRef name, Tensor<Real> value, int64_t rank = 0) {
    states[rank].insert_or_assign(name.str(), std::move(value));
  }

private:
  using Values = DenseMap<const Value *, Tensor<Real>>;

  Expected<DimBinding> bindDims(const Function &function, ArrayRef<Tensor<Real>> arguments) const;
  // `values`: those of each rank.
  Error runBlock(const Block &block, const DimBinding &dims, MutableArrayRef<Values> values);
  /// Runs an op on all ranks and forgets the values that die at it.
  Error runOp(const Op &op, const DimBinding &dims, ArrayRef<const Value *> dying, MutableArrayRef<Values> values);
  Error runFused(const Op &op, const DimBinding &dims, ArrayRef<const Value *> dying, MutableArrayRef<Values> values);
  /// Runs an op on a rank. `operands` are its own there, and not needed any more; `peers`: as EvalArgs has them.
  Expected<Tensor<Real>> evaluate(const Op &op, const DimBinding &dims, int64_t rank,
                                  SmallVector<Tensor<Real>, 4> operands, ArrayRef<Tensor<Real>> peers);
  /// The values of a terminator's or an op's operands.
  Expected<SmallVector<Tensor<Real>, 4>> operandsOf(const Op &op, const DimBinding &dims, int64_t rank,
                                                    const Values &values);
  Expected<Tensor<Real>> operand(const Value &value, const DimBinding &dims, int64_t rank, const Values &values);
  Expected<Tensor<Real>> state(const Value &value, const DimBinding &dims, int64_t rank);

  const Module &module;
  WeightLoader<Real> loadWeight;
  // Of each rank.
  std::vector<DenseMap<const Value *, Tensor<Real>>> weights;
  std::vector<std::map<std::string, Tensor<Real>>> states;
  ResultHook onResult;
};

extern template class Evaluator<float>;
extern template class Evaluator<double>;

} // namespace kiln
