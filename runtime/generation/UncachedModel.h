//===- UncachedModel.h - generation without a cache -------------------------===//
#pragma once

#include "runtime/generation/LanguageModel.h"

namespace kiln {

/// A model that keeps tokens instead of keys and values: every new token evaluates its whole sequence again, by the
/// prefill of another model, which must outlive this one. It serves plans without @decode, and shows what a cache
/// saves.
class UncachedModel : public LanguageModel {
public:
  explicit UncachedModel(LanguageModel &base) : base(base) {}

  int64_t vocabSize() const override { return base.vocabSize(); }
  int64_t contextLength() const override { return base.contextLength(); }
  int64_t maxBatch() const override { return base.maxBatch(); }
  Error makeCurrent() override { return base.makeCurrent(); }

  Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) override;
  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override;
  void truncate(ArrayRef<int64_t> lengths) override;

private:
  LanguageModel &base;
  std::vector<std::vector<int32_t>> rows; ///< the tokens of each row
};

} // namespace kiln
