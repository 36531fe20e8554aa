//===- FakeModel.h - a model without weights --------------------------------===//
#pragma once

#include "TestSupport.h"

#include "runtime/generation/LanguageModel.h"
#include "support/Random.h"

namespace kiln {

using Ids = std::vector<int32_t>;

/// The logits after some tokens: pseudo-random numbers that depend on all tokens and their positions.
inline std::vector<float> logitsAfter(ArrayRef<int32_t> tokens, int64_t vocabSize) {
  uint32_t hash = 1;
  for (int32_t token : tokens)
    hash = (hash ^ static_cast<uint32_t>(token)) * 16777619u + 7;
  std::vector<float> logits;
  for (int64_t id = 0; id < vocabSize; ++id)
    logits.push_back(4 * uniformFloat(philox4x32({hash, static_cast<uint32_t>(id), 0, 0}, 0)[0]));
  return logits;
}

/// Two rows of twelve tokens out of fifty; records its input.
class FakeModel : public LanguageModel {
public:
  int64_t vocabSize() const override { return 50; }
  int64_t contextLength() const override { return 12; }
  int64_t maxBatch() const override { return 2; }

  Error prefill(ArrayRef<Ids> prompts, MutableArrayRef<std::vector<float>> logits) override {
    EXPECT_LE(prompts.size(), 2u);
    EXPECT_EQ(prompts.size(), logits.size());
    rows.resize(prompts.size());
    for (size_t row = 0; row < prompts.size(); ++row) {
      if (prompts[row].empty())
        continue;
      EXPECT_LE(static_cast<int64_t>(prompts[row].size()), contextLength());
      rows[row] = prompts[row];
      prefilled.push_back(prompts[row]);
      logits[row] = makeLogits(rows[row]);
    }
    return Error::success();
  }

  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override {
    EXPECT_EQ(tokens.size(), rows.size());
    EXPECT_EQ(logits.size(), rows.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      if (tokens[row] == idleRow)
        continue;
      rows[row].push_back(tokens[row]);
      if (static_cast<int64_t>(rows[row].size()) > contextLength())
        return makeError("the context is full");
      logits[row] = makeLogits(rows[row]);
      ++decoded;
    }
    return Error::success();
  }

  void truncate(ArrayRef<int64_t> lengths) override {
    for (size_t row = 0; row < rows.size(); ++row)
      if (lengths[row] >= 0) {
        EXPECT_LE(lengths[row], static_cast<int64_t>(rows[row].size()));
        rows[row].resize(lengths[row]);
      }
  }

  std::vector<Ids> rows, prefilled;
  int decoded = 0; ///< tokens

protected:
  virtual std::vector<float> makeLogits(ArrayRef<int32_t> tokens) const { return logitsAfter(tokens, 50); }
};

} // namespace kiln
