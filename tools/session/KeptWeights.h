//===- KeptWeights.h - weights for several plans ----------------------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

#include <mutex>

namespace kiln {

/// Keeps every tensor that was asked for, for programs that load one plan after the other: random weights take longer
/// to make than a plan to load. Several threads may ask.
class KeptWeights : public WeightSource {
public:
  explicit KeptWeights(std::shared_ptr<const WeightSource> source) : source(std::move(source)) {}
  bool has(StringRef name) const override { return source->has(name); }
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override;

private:
  std::shared_ptr<const WeightSource> source;
  mutable std::mutex mutex;
  mutable std::map<std::string, TensorView, std::less<>> kept; ///< by name and shape
};

} // namespace kiln
