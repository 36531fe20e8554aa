//===- RankLeader.h - the first rank of a model, the others in processes --===//
#pragma once

#include "runtime/generation/PlanModel.h"
#include "runtime/processes/RankGroup.h"

namespace kiln {

/// A model whose tensors are split among ranks, one for each process of a group, in the process of the first. It makes
/// each call itself and has the others make it (RankFollower.h). Only the first rank has prompts and options, and
/// everything that the user sees. Tokens that devices choose are compared: where ranks choose different ones, that is
/// an error.
class RankLeader : public LanguageModel, public Scorer {
public:
  /// `executor` is of Executor::createRank; both must outlive the model.
  RankLeader(Executor &executor, RankGroup &group) : own(executor), group(group) {}

  int64_t vocabSize() const override { return own.vocabSize(); }
  int64_t contextLength() const override { return own.contextLength(); }
  int64_t maxBatch() const override { return own.maxBatch(); }
  Error makeCurrent() override { return own.makeCurrent(); }

  Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) override;
  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override;
  Error verify(ArrayRef<std::vector<int32_t>> tokens, MutableArrayRef<std::vector<std::vector<float>>> logits) override;
  int64_t verifyTokens() const override { return own.verifyTokens(); }
  void truncate(ArrayRef<int64_t> lengths) override;
  /// Where tokens are chosen on the host, only the first rank chooses, and tells the others.
  std::unique_ptr<TokenStream> openStream(const StreamOptions &options) override;
  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override;

private:
  PlanModel own;
  RankGroup &group;
};

} // namespace kiln
