//===- Compare.h - two models over the same tokens ------------------------------===//
//
// How a change of precision or strategy is accepted. Both sides get the same tokens, one after the other, through
// @prefill and @decode, and their logits are compared; models then score the same tokens by @score, the way of long
// prompts, and the values behind their layers are compared.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/compare/LayerDifferences.h"
#include "tools/compare/LogitStatistics.h"
#include "tools/compare/LogitsFile.h"

namespace kiln {

/// A sequence to compare on: its first `inputs` tokens are fed; each token but the first is a target.
struct ComparedSequence {
  std::vector<int32_t> tokens;
  size_t inputs = 0; ///< tokens.size(), or one less
  /// If positive: there is one token, and A writes so many behind it, by sampling at temperature 1.
  size_t newTokens = 0;

  /// The token behind a position; negative if it is not known.
  int32_t target(size_t position) const { return position + 1 < tokens.size() ? tokens[position + 1] : -1; }
};

/// A side: a model, or what another program computed.
struct ComparedSide {
  std::string name;
  Engine *engine = nullptr;
  const LogitsFile *file = nullptr;
};

struct CompareOptions {
  int64_t batch = 1; ///< sequences side by side; at most what both models take
  /// Called after every step with the part of the work that is done.
  std::function<void(size_t done, size_t all, const LogitStatistics &)> onStep = nullptr;
};

struct Comparison {
  LogitStatistics logits;
  std::vector<LayerDifference> layers;  ///< of two models
  std::optional<double> largestOfScore; ///< of two models: the largest difference of a log-probability by @score
};

/// Compares two sides. Sequences are those of a file's if a side is one, and become longer with newTokens. Error: a
/// logit that is not finite, or an error of a model.
Expected<Comparison> compareModels(const ComparedSide &a, const ComparedSide &b,
                                   std::vector<ComparedSequence> &sequences, const CompareOptions &options);

} // namespace kiln
