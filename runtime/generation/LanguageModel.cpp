#include "runtime/generation/LanguageModel.h"

#include <algorithm>

namespace kiln {

void SpeculationCounts::add(size_t guesses, size_t right) {
  ++passes;
  drafted.resize(std::max(drafted.size(), guesses));
  accepted.resize(drafted.size());
  for (size_t place = 0; place < guesses; ++place) {
    ++drafted[place];
    accepted[place] += place < right;
  }
}

namespace {
/// Samples on the host from the logits of prefill and decode.
class HostTokenStream : public TokenStream {
public:
  HostTokenStream(LanguageModel &model, const StreamOptions &options)
      : model(model), sampler(options.sampling), firstSequence(options.firstSequence) {}

  Error start(ArrayRef<std::vector<int32_t>> prompts) override;
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return rowLogits[row]; }

private:
  Error computeLogits(const BitVector &active);

  LanguageModel &model;
  Sampler sampler;
  uint64_t firstSequence;
  // One entry per row.
  std::vector<std::vector<float>> rowLogits;
  BitVector hasFreshLogits;        ///< no token has been chosen from them yet
  std::vector<int32_t> lastTokens; ///< chosen, but not yet in the model
  std::vector<uint64_t> positions; ///< tokens of the first prompt, and those chosen since
};
} // namespace

Error HostTokenStream::start(ArrayRef<std::vector<int32_t>> prompts) {
  rowLogits.resize(prompts.size());
  hasFreshLogits.resize(prompts.size());
  lastTokens.resize(prompts.size(), idleRow);
  if (positions.empty())
    for (const std::vector<int32_t> &prompt : prompts)
      positions.push_back(prompt.size());
  for (size_t row = 0; row < prompts.size(); ++row)
    if (!prompts[row].empty())
      hasFreshLogits.set(row);
  return model.prefill(prompts, rowLogits);
}

/// Feeds the last tokens of the active rows, except rows that have just been started.
Error HostTokenStream::computeLogits(const BitVector &active) {
  std::vector<int32_t> fed(lastTokens.size(), idleRow);
  bool isAnyFed = false;
  for (unsigned row : active.set_bits()) {
    if (hasFreshLogits.test(row))
      continue;
    fed[row] = lastTokens[row];
    isAnyFed = true;
  }
  return isAnyFed ? model.decode(fed, rowLogits) : Error::success();
}

Error HostTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  if (Error error = computeLogits(active))
    return error;
  std::fill(tokens.begin(), tokens.end(), idleRow);
  for (unsigned row : active.set_bits()) {
    assert(static_cast<int64_t>(rowLogits[row].size()) == model.vocabSize() && "a row of logits of another size");
    Expected<int32_t> token = sampler.choose(rowLogits[row], firstSequence + row, positions[row]);
    if (!token)
      return token.takeError();
    hasFreshLogits.reset(row);
    ++positions[row];
    tokens[row] = lastTokens[row] = *token;
  }
  return Error::success();
}

Error LanguageModel::verify(ArrayRef<std::vector<int32_t>> tokens,
                            MutableArrayRef<std::vector<std::vector<float>>> logits) {
  size_t most = 0;
  for (auto [ids, out] : llvm::zip(tokens, logits)) {
    most = std::max(most, ids.size());
    out.resize(ids.size());
  }
  for (size_t i = 0; i < most; ++i) {
    std::vector<int32_t> step;
    for (const std::vector<int32_t> &ids : tokens)
      step.push_back(i < ids.size() ? ids[i] : idleRow);
    std::vector<std::vector<float>> next(tokens.size());
    if (Error error = decode(step, next))
      return error;
    for (size_t row = 0; row < tokens.size(); ++row)
      if (step[row] != idleRow)
        logits[row][i] = std::move(next[row]);
  }
  return Error::success();
}

std::unique_ptr<TokenStream> LanguageModel::openStream(const StreamOptions &options) {
  return std::make_unique<HostTokenStream>(*this, options);
}

} // namespace kiln
