#include "tools/compare/LayerDifferences.h"

#include "support/Diagnostic.h"

#include <cmath>

namespace kiln {

double LayerDifference::relative() const { return squaresOfA > 0 ? std::sqrt(squares / squaresOfA) : 0; }

/// The number of the layer in the name of a residual stream, `x.3`; the front end gives these names.
static std::optional<unsigned> layerOf(StringRef name) {
  unsigned layer;
  if (!name.consume_front("x.") || name.getAsInteger(10, layer))
    return std::nullopt;
  return layer;
}

Expected<std::vector<TokenScore>> LayerDifferences::run(Engine &engine, const ScoreWindow &window, Values &values) {
  engine.observe([](StringRef name) { return layerOf(name).has_value(); },
                 [&](StringRef name, ArrayRef<float> elements) {
                   values[*layerOf(name)] = elements.vec();
                   return Error::success();
                 });
  auto scores = engine.scorer().score(window);
  engine.stopObserving();
  if (!scores)
    return scores.takeError();
  return std::move(scores->front());
}

void LayerDifferences::compare(StringRef name, ArrayRef<float> ofA, ArrayRef<float> ofB, size_t tokens) {
  auto layer = llvm::find_if(layers, [&](const LayerDifference &known) { return known.value == name; });
  if (layer == layers.end())
    layer = layers.insert(layers.end(), {name.str()});
  size_t channels = ofA.size() / tokens;
  for (size_t token = 0; token < tokens; ++token) {
    double difference = 0, size = 0;
    for (auto [x, y] : llvm::zip(ofA.slice(token * channels, channels), ofB.slice(token * channels, channels))) {
      difference += (static_cast<double>(x) - y) * (static_cast<double>(x) - y);
      size += static_cast<double>(x) * x;
    }
    layer->squares += difference;
    layer->squaresOfA += size;
    if (size > 0)
      layer->largestOfToken = std::max(layer->largestOfToken, std::sqrt(difference / size));
  }
}

Error LayerDifferences::add(const ScoreWindow &window) {
  Values valuesA, valuesB;
  auto scoresA = run(a, window, valuesA);
  if (!scoresA)
    return scoresA.takeError();
  auto scoresB = run(b, window, valuesB);
  if (!scoresB)
    return scoresB.takeError();
  for (auto [x, y] : llvm::zip(*scoresA, *scoresB)) {
    double difference = std::abs(x.nll - y.nll);
    if (!std::isfinite(difference))
      return makeError("expected finite log-probabilities of @score, got " + formatv("{0} and {1}", -x.nll, -y.nll));
    largestScore = std::max(largestScore, difference);
  }
  for (const auto &[layer, ofA] : valuesA)
    if (auto ofB = valuesB.find(layer); ofB != valuesB.end() && ofA.size() == ofB->second.size())
      compare("x." + std::to_string(layer), ofA, ofB->second, window.inputs.size());
  return Error::success();
}

} // namespace kiln
