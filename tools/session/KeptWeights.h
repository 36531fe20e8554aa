//===- KeptWeights.h - weights that several plans share -------------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

#include <mutex>

namespace kiln {

/// Keeps every tensor that was requested, for programs that load several plans: generating random weights takes longer
/// than loading a plan. Thread-safe.
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
