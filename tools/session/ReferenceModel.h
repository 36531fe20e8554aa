//===- ReferenceModel.h - generation and scoring on the CPU -----------------===//
//
// Joins the compiler's reference executor with the runtime's generation loop; neither knows of the other.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/session/ModelSource.h"

#include "reference/Evaluator.h"
#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

/// A model of a module with @prefill, @decode and @score, in f32. Every row has its own evaluator and cache, so that
/// rows cannot depend on each other; weights are shared.
class ReferenceModel : public LanguageModel, public Scorer {
public:
  /// The source must outlive the model.
  explicit ReferenceModel(const ModelSource &source);

  int64_t vocabSize() const override { return source.module->intAttribute("vocab"); }
  int64_t contextLength() const override { return source.module->intAttribute("context"); }
  int64_t maxBatch() const override { return 1 << 16; } // rows are evaluated one after the other

  Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) override;
  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override;
  void truncate(ArrayRef<int64_t> lengths) override;
  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override;

  /// Packs every weight now, so that no step has to do it.
  Error loadWeights();
  /// A weight of a rank, packed as its recipe says but in f32; kept after its first use.
  Expected<Tensor<float>> loadWeight(const Value &weight, int64_t rank);

  /// As of Evaluator, for calls from now on; null for none.
  void setResultHook(Evaluator<float>::ResultHook hook) { onResult = std::move(hook); }

private:
  struct Row {
    std::unique_ptr<Evaluator<float>> evaluator;
    int64_t length = 0; ///< the number of its tokens
  };

  std::unique_ptr<Evaluator<float>> makeEvaluator();
  Error checkScore() const;

  const ModelSource &source;
  std::map<std::pair<const Value *, int64_t>, Tensor<float>> weights;
  std::vector<Row> rows;
  Evaluator<float>::ResultHook onResult;
};

} // namespace kiln
