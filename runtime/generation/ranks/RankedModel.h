//===- RankedModel.h - a model that several GPUs share --------------------===//
#pragma once

#include "runtime/generation/PlanModel.h"
#include "runtime/generation/ranks/RankThreads.h"

namespace kiln {

/// A model whose tensors are split among several ranks, one for each GPU, all in this process. Every rank makes the
/// same calls, at the same time; the results are those of the first. They are the same bits on all ranks: where ranks
/// choose different tokens, that is an error.
class RankedModel : public LanguageModel, public Scorer {
public:
  /// `executors` are those of Executor::createRanks; they must outlive the model. Error: the system refuses a thread.
  static Expected<std::unique_ptr<RankedModel>> create(ArrayRef<Executor *> executors);

  int64_t vocabSize() const override { return models.front()->vocabSize(); }
  int64_t contextLength() const override { return models.front()->contextLength(); }
  int64_t maxBatch() const override { return models.front()->maxBatch(); }
  Error makeCurrent() override { return models.front()->makeCurrent(); }

  Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) override;
  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override;
  Error verify(ArrayRef<std::vector<int32_t>> tokens, MutableArrayRef<std::vector<std::vector<float>>> logits) override;
  int64_t verifyTokens() const override { return models.front()->verifyTokens(); }
  void truncate(ArrayRef<int64_t> lengths) override;
  std::unique_ptr<TokenStream> openStream(const StreamOptions &options) override;
  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override;

  /// Calls `work` for all ranks at the same time, each in its thread. Error: as of RankThreads::run.
  Error run(function_ref<Error(size_t rank)> work) { return threads->run(work); }

private:
  explicit RankedModel(ArrayRef<Executor *> executors);

  std::vector<std::unique_ptr<PlanModel>> models; ///< of each rank
  std::unique_ptr<RankThreads> threads;           ///< last: it uses the models
};

} // namespace kiln
