//===- RandomCheckpoint.h - reproducible weights without a file -------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

namespace kiln {

/// F32 weights that look like a freshly initialised GPT-2 (Radford et al. 2019, section 2.3). Element i of a
/// tensor depends on the seed, the tensor's name and i alone: with n its standard normal number,
/// layer normalisation weights are 1 + 0.02 n, `wpe` 0.01 n, residual projections (`c_proj.weight`)
/// 0.02 / sqrt(2 L) n for L layers, and everything else 0.02 n.
class RandomCheckpoint : public WeightSource {
public:
  RandomCheckpoint(uint64_t seed, int64_t layers) : seed(seed), layers(layers) {}

  /// The names of every tensor except `lm_head.weight`: the embedding is tied.
  bool has(StringRef name) const override { return name != "lm_head.weight"; }

  /// Generated anew at every call, in any shape; the view owns it. Error: a shape that memory cannot hold.
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> expectedShape) const override;

private:
  uint64_t seed;
  int64_t layers;
};

} // namespace kiln
