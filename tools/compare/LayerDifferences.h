//===- LayerDifferences.h - how far two models' layers are apart ----------------===//
#pragma once

#include "tools/session/Engine.h"

namespace kiln {

/// The difference of two models' residual streams behind a layer.
struct LayerDifference {
  std::string value; ///< as in the IR: `x.0` is the sum of the embeddings, `x.1` is behind the first layer
  double squares = 0, squaresOfA = 0;
  double largestOfToken = 0; ///< the largest |a - b| / |a| of a token's vector

  /// |a - b| / |a| over all tokens.
  double relative() const;
};

/// Two models' values in passes of @score over the same windows.
class LayerDifferences {
public:
  /// The engines must outlive this object, and nothing else may observe them.
  LayerDifferences(Engine &a, Engine &b) : a(a), b(b) {}

  /// Scores a window on both and adds its differences. Error: of the engines, or a score that is not finite.
  Error add(const ScoreWindow &window);

  /// In the order of the layers: those whose values both models keep in memory under these names.
  std::vector<LayerDifference> layers;
  double largestScore = 0; ///< the largest difference of a target's log-probability

private:
  using Values = std::map<unsigned, std::vector<float>>; ///< by layer

  static Expected<std::vector<TokenScore>> run(Engine &engine, const ScoreWindow &window, Values &values);
  void compare(StringRef name, ArrayRef<float> ofA, ArrayRef<float> ofB, size_t tokens);

  Engine &a, &b;
};

} // namespace kiln
