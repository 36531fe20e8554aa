//===- ModelOptions.h - how a model is compiled, and its weights -------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// How a model is compiled.
struct PipelineChoices {
  std::string dtype = "f32";        ///< as assign-precision takes it
  std::string matmul = "generated"; ///< as select-kernels takes it
  std::string strategy;             ///< as applyStrategies takes it
  std::string tuning = "shipped";   ///< as choose-tiles takes it
};

/// How to get a model's weights.
struct WeightOptions {
  std::string directory;              ///< --weights
  std::optional<uint64_t> randomSeed; ///< --random-weights
};

} // namespace kiln
