//===- SharpWeights.h - random weights that make every part of a model matter ---===//
#pragma once

#include "runtime/weights/WeightSource.h"
#include "support/Random.h"

#include <cmath>
#include <random>

namespace kiln {

/// Weights as large as those of a trained model: attention concentrates on few tokens, normalisation is far from the
/// identity, and the logits differ clearly. Untied.
class SharpWeights : public WeightSource {
public:
  bool has(StringRef) const override { return true; }

  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    bool isMatrix = shape.size() == 2 && !name.starts_with("w") && !name.starts_with("lm_head");
    bool isScale = name.contains("ln_") && name.ends_with(".weight");
    double deviation = isMatrix ? 1.5 / std::sqrt(static_cast<double>(shape[0])) : shape.size() == 2 ? 0.5 : 0.2;
    std::shared_ptr<float[]> elements(new float[count]);
    std::seed_seq seed(name.begin(), name.end());
    std::mt19937 generator(seed);
    for (int64_t i = 0; i < count; ++i)
      elements[i] = static_cast<float>((isScale ? 1 : 0) + deviation * normalFloat(static_cast<uint32_t>(generator())));
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(elements.get()), count * sizeof(float));
    return TensorView{DType::F32, TensorShape(shape), bytes, elements};
  }
};

} // namespace kiln
