#include "runtime/generation/LanguageModel.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/generation/speculation/SpeculativeStream.h"

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

void SpeculationCounts::add(const SpeculationCounts &other) {
  passes += other.passes;
  for (auto [own, more] : {std::pair(&drafted, &other.drafted), std::pair(&accepted, &other.accepted)}) {
    own->resize(std::max(own->size(), more->size()));
    for (size_t place = 0; place < more->size(); ++place)
      (*own)[place] += (*more)[place];
  }
}

namespace {
/// Samples on the host from the logits of prefill and decode.
class HostTokenStream : public TokenStream {
public:
  HostTokenStream(LanguageModel &model, const StreamOptions &options)
      : model(model), rows(options.rows), rowLogits(options.rows) {}

  Error start(ArrayRef<RowStart> starts) override;
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return rowLogits[row]; }

private:
  struct Row {
    SamplingParams sampling = {};
    std::optional<LogitEditor> editor = {};
    uint64_t sequence = 0, position = 0; ///< of the next token, for its noise
    int32_t lastToken = idleRow;         ///< chosen, but not yet in the model
    bool hasFreshLogits = false;         ///< no token has been chosen from them yet
  };

  Error computeLogits(const BitVector &active);

  LanguageModel &model;
  Sampler sampler = Sampler(SamplingParams());
  std::vector<Row> rows;
  std::vector<std::vector<float>> rowLogits;
};
} // namespace

Error HostTokenStream::start(ArrayRef<RowStart> starts) {
  std::vector<std::vector<int32_t>> prompts(rows.size());
  for (const RowStart &start : starts) {
    prompts[start.row] = start.tokens;
    rows[start.row] = {start.sampling, start.editor, start.sequence, start.position, idleRow, /*hasFreshLogits=*/true};
  }
  return model.prefill(prompts, rowLogits);
}

/// Feeds the last tokens of the active rows, except rows that have just been started.
Error HostTokenStream::computeLogits(const BitVector &active) {
  std::vector<int32_t> fed(rows.size(), idleRow);
  bool isAnyFed = false;
  for (unsigned row : active.set_bits()) {
    if (rows[row].hasFreshLogits)
      continue;
    fed[row] = rows[row].lastToken;
    isAnyFed = true;
  }
  return isAnyFed ? model.decode(fed, rowLogits) : Error::success();
}

Error HostTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  if (Error error = computeLogits(active))
    return error;
  NvtxRange range("sample");
  std::fill(tokens.begin(), tokens.end(), idleRow);
  for (unsigned index : active.set_bits()) {
    Row &row = rows[index];
    assert(static_cast<int64_t>(rowLogits[index].size()) == model.vocabSize() && "a row of logits of another size");
    sampler.setParams(row.sampling);
    Expected<int32_t> token =
        sampler.choose(row.editor ? row.editor->edit(rowLogits[index]) : rowLogits[index], row.sequence, row.position);
    if (!token)
      return token.takeError();
    if (row.editor)
      row.editor->add(*token);
    row.hasFreshLogits = false;
    ++row.position;
    tokens[index] = row.lastToken = *token;
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
  if (options.draft)
    return std::make_unique<SpeculativeStream>(*this, options);
  return std::make_unique<HostTokenStream>(*this, options);
}

} // namespace kiln
