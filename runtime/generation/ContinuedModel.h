//===- ContinuedModel.h - prompts that continue what a row holds ----------===//
#pragma once

#include "runtime/generation/LanguageModel.h"

namespace kiln {

/// Another model, which must outlive this one, with prompts that begin with tokens that their row already holds: of
/// those, only the other tokens are evaluated, one after the other, as `decode` does. A conversation whose text grows
/// by a line at a time so keeps its cache. A prompt of which the row holds less than half is evaluated as a whole.
class ContinuedModel : public LanguageModel {
public:
  explicit ContinuedModel(LanguageModel &base) : base(base) {}

  int64_t vocabSize() const override { return base.vocabSize(); }
  int64_t contextLength() const override { return base.contextLength(); }
  int64_t maxBatch() const override { return base.maxBatch(); }
  Error makeCurrent() override { return base.makeCurrent(); }

  Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) override;
  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override;
  void truncate(ArrayRef<int64_t> lengths) override;

private:
  size_t heldOf(size_t row, ArrayRef<int32_t> prompt) const;

  LanguageModel &base;
  std::vector<std::vector<int32_t>> rows; ///< the tokens that each row holds
};

} // namespace kiln
