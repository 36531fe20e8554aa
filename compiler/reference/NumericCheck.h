//===- NumericCheck.h - check that a pass keeps a module's results --------===//
#pragma once

#include "ir/IR.h"
#include "ops/Tensor.h"

namespace kiln {

/// Evaluates functions of a module before and after a transformation, in double, on the same random inputs, weights
/// and states, and compares results and written states. Token ids, lengths and positions are drawn from what their
/// users accept; dims take small values within their bounds.
class NumericCheck {
public:
  explicit NumericCheck(uint64_t seed) : seed(seed) {}

  /// Evaluates every function and keeps the results.
  Error before(const Module &module);

  /// Evaluates again every function that `before` saw. Error: the first function that is gone or has another signature;
  /// or of which a result is not the same on all ranks,
  /// or a result, or a state that it wrote, is gone, has another shape or differs by more than `tolerance`
  /// relative to its largest element, with the element.
  Error after(const Module &module, double tolerance = 1e-9);

private:
  struct Record {
    std::vector<Tensor<double>> arguments, results;
    /// Those that it wrote, and all that the module has, by name and rank.
    std::map<std::pair<std::string, int64_t>, Tensor<double>> states;
    std::set<std::string> written;
  };

  std::vector<Tensor<double>> drawArguments(const Function &function) const;
  Expected<Record> evaluate(const Module &module, const Function &function,
                            std::vector<Tensor<double>> arguments) const;
  static Error compareRecords(StringRef function, const Record &old, const Record &now, double tolerance);

  uint64_t seed;
  std::map<std::string, Record> records;
};

/// A random weight as its recipe packs it on a rank: the same elements for the same checkpoint tensor, whatever the
/// layout.
Tensor<double> randomWeight(const Value &weight, uint64_t seed, int64_t rank = 0);

} // namespace kiln
