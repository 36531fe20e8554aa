//===- PlanModel.h - generation and scoring with a plan ---------------------===//
#pragma once

#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/sampling/DeviceSampler.h"
#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

/// Runs @prefill, @decode and @score of an executor's plan. The executor must outlive the model.
class PlanModel : public LanguageModel, public Scorer {
public:
  /// Checks that the plan has these entries, as a language model's plan does. Error: an entry is missing.
  static Error check(const Plan &plan, ArrayRef<Entry> entries);

  explicit PlanModel(Executor &executor) : executor(executor), classes(executor.plan()) {}

  int64_t vocabSize() const override { return executor.plan().model.vocabulary; }
  int64_t contextLength() const override { return executor.plan().model.context; }
  int64_t maxBatch() const override { return executor.options().batch; }
  Error makeCurrent() override { return executor.device().makeCurrent(); }

  Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) override;
  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override;
  /// By @verify, if the executor has it and a pass of it fits into the context of every row.
  Error verify(ArrayRef<std::vector<int32_t>> tokens, MutableArrayRef<std::vector<std::vector<float>>> logits) override;
  int64_t verifyTokens() const override { return executor.plan().verifyTokens(); }
  void truncate(ArrayRef<int64_t> lengths) override;
  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override;

  /// Returns a stream that chooses on the device, unless the caller wants the logits, edits them, or watches the steps.
  std::unique_ptr<TokenStream> openStream(const StreamOptions &options) override;
  bool choosesOnDevice(const StreamOptions &options) const; ///< whether openStream does so

private:
  Error prefillRows(size_t firstRow, ArrayRef<std::vector<int32_t>> prompts,
                    MutableArrayRef<std::vector<float>> logits);
  Expected<std::vector<std::vector<TokenScore>>> scoreTogether(ArrayRef<ScoreWindow> windows);
  Error downloadLogits(Entry entry, int64_t row, std::vector<float> &logits);
  bool canVerify(ArrayRef<std::vector<int32_t>> tokens) const;

  Executor &executor;
  const PromptClasses classes;
  std::unique_ptr<DeviceSampler> sampler; ///< made by the first stream that uses it
  std::vector<int32_t> lengths;           ///< the number of tokens in each row
};

} // namespace kiln
