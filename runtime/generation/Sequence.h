//===- Sequence.h - a sequence during generation --------------------------===//
#pragma once

#include "runtime/generation/Generator.h"
#include "runtime/generation/StopStrings.h"

namespace kiln {

/// A sequence during generation: its tokens and text so far, and whether it goes on. `request` must outlive it.
class Sequence {
public:
  Sequence(const LanguageModel &model, const Tokenizer *tokenizer, const GenerationRequest &request, size_t index);

  bool isDone() const { return done; }

  /// Ends the sequence as it is, without the text that is still held back.
  void cancel();

  /// The start of a row with what there is of the text.
  RowStart start(size_t row) const;

  /// Whether the context must slide before the next step; from then on, `start` gives its end only.
  bool slide();

  /// Adds a token. Returns the text that is now certain; after the last token, all held-back text.
  Expected<std::string> add(int32_t token);

  Generation result;
  size_t index; ///< of the request

private:
  int64_t length() const { return static_cast<int64_t>(result.promptTokens.size() + result.newTokens.size()); }
  Expected<std::string> addText(int32_t token);
  std::string finishText();
  bool isFull() const;

  const GenerationRequest &request;
  const SequenceOptions &options;
  int64_t contextLength;
  std::optional<StreamingDecoder> decoder;
  StopStrings stopStrings;
  int64_t windowStart = 0; ///< index of the first token that the model holds
  bool done = false;
};

} // namespace kiln
