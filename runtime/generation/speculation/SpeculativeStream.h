//===- SpeculativeStream.h - tokens that were guessed and checked -----------===//
//
// A pass takes each row's last token and guesses of the next ones, and gives the logits behind all of them. Tokens are
// chosen from these as without guesses, one after the other; at the first that is not the guess, the rest of the row's
// pass is forgotten. So a pass gives one token or more, and the same ones for any guesses.
//
// The host drives this loop: it works on every device, and waits for the device in each pass. PlanTokenStream leaves
// it to the device.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/generation/speculation/Draft.h"
#include "runtime/generation/speculation/DraftPace.h"

#include <deque>

namespace kiln {

class SpeculativeStream : public TokenStream {
public:
  /// The options have a draft. It and the model must outlive the stream.
  SpeculativeStream(LanguageModel &model, const StreamOptions &options)
      : model(model), draft(*options.draft), length(options.draftLength), options(options), rows(options.rows) {}

  Error start(ArrayRef<RowStart> starts) override;
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return rows[row].logits; }
  const SpeculationCounts *speculation(size_t row) const override { return &rows[row].counts; }

private:
  struct Chosen {
    int32_t token;
    std::vector<float> logits; ///< if they are kept
  };
  struct Row {
    std::vector<int32_t> text; ///< what the model holds, and the last chosen token
    SamplingParams sampling = {};
    std::optional<LogitEditor> editor = {};
    uint64_t sequence = 0;
    uint64_t position = 0; ///< of the next token in the sequence
    int64_t remaining = 0; ///< tokens that may still be chosen; 0 after a stop token
    std::vector<int32_t> stopTokens = {};
    std::deque<Chosen> ready = {}; ///< chosen, and not yet taken
    std::vector<float> logits = {};
    DraftPace pace = DraftPace({});
    SpeculationCounts counts = {};
  };
  using Tokens = std::vector<std::vector<int32_t>>; ///< by row

  bool canGoOn(const Row &row) const;
  Error choose(size_t row, std::vector<float> logits);
  Error guess(const BitVector &active, Tokens &guesses);
  Error accept(size_t row, ArrayRef<int32_t> guesses, MutableArrayRef<std::vector<float>> logits);
  Error pass(const BitVector &active);

  LanguageModel &model;
  Draft &draft;
  DraftLength length;
  StreamOptions options;
  Sampler sampler = Sampler(SamplingParams());
  std::vector<Row> rows;
};

} // namespace kiln
