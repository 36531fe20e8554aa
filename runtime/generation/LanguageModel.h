//===- LanguageModel.h - the interface of models for text generation ------===//
//
// A model holds a batch of rows, each a sequence of tokens at positions 0, 1, ... of its own. Two levels:
// - LanguageModel is what every runtime implements: tokens in, logits out.
// - TokenStream is what the generator uses: prompts in, chosen tokens out. The default one samples on the
//   host from the logits of a LanguageModel. A runtime that samples on the device and launches steps ahead of the
//   host returns its own from openStream, and no caller changes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/generation/sampling/LogitEditor.h"
#include "runtime/generation/sampling/Sampler.h"

#include <limits>

namespace kiln {

/// In a batch of tokens: this row takes no part in the step, or gets no token.
inline constexpr int32_t idleRow = -1;

class Draft;

/// How many tokens to guess.
struct DraftLength {
  int64_t most = 4;    ///< in a pass
  bool isAuto = false; ///< fewer, down to none, where guesses are refused
};

struct StreamOptions {
  size_t rows = 1;          ///< how many sequences run side by side; at most maxBatch()
  bool keepLogits = false;  ///< whether TokenStream::logits will be asked for
  bool editsLogits = false; ///< whether rows may have an editor
  Draft *draft = nullptr;   ///< guesses tokens, which are the same without it; outlives the stream
  DraftLength draftLength = {};
};

/// What a row starts from.
struct RowStart {
  size_t row = 0;
  std::vector<int32_t> tokens; ///< what the model is to hold: 1 to contextLength()
  SamplingParams sampling = {};
  uint64_t sequence = 0; ///< of the noise
  /// Tokens of the text before the first one that is chosen; more than those above if the context has slid.
  uint64_t position = 0;
  /// The row gets no more tokens than this, and none after a stop token: a stream that works ahead can stop there.
  int64_t remaining = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> stopTokens = {};
  std::optional<LogitEditor> editor = {}; ///< of the logits from which tokens are chosen
  bool isSameText = false;                ///< whether the row's text goes on, since the context has slid
};

/// What became of a sequence's guesses.
struct SpeculationCounts {
  int64_t passes = 0; ///< of the model, without the one over the prompt
  /// Guesses by their place in a pass, and those of them that were right.
  std::vector<int64_t> drafted = {}, accepted = {};

  void add(size_t guesses, size_t right);
  void add(const SpeculationCounts &other);
};

/// The tokens of some rows, chosen step by step.
class TokenStream {
public:
  virtual ~TokenStream() = default;

  /// Starts rows, each at most once in a call. They forget what they held; the other rows go on as they are.
  virtual Error start(ArrayRef<RowStart> starts) = 0;

  /// Chooses one more token for active rows and appends it to the row; the other entries become idleRow. At least one
  /// active row gets a token; one that has just been started may have to wait until the others have taken what was
  /// computed ahead for them. A row that was inactive once stays inactive until it is started again, so an
  /// implementation may work steps ahead and discard the results of rows that ended. A later `start` overrides anything
  /// computed for its rows. A row that holds more than contextLength() tokens must not be active.
  virtual Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) = 0;

  /// The model's logits, vocabSize() of them, by which the row's last token was chosen, if they are kept.
  virtual ArrayRef<float> logits(size_t row) const = 0;

  /// What became of the row's guesses; null if the stream does not guess.
  virtual const SpeculationCounts *speculation(size_t row) const { return nullptr; }
};

class LanguageModel {
public:
  virtual ~LanguageModel() = default;

  virtual int64_t vocabSize() const = 0;
  virtual int64_t contextLength() const = 0; ///< the most tokens that a row can hold
  virtual int64_t maxBatch() const = 0;      ///< the most rows

  /// Prepares the calling thread for calls of this model: needed in a thread other than the one that made it.
  virtual Error makeCurrent() { return Error::success(); }

  /// Fills rows, one for each prompt. A row with a prompt forgets what it held; a row whose prompt is empty
  /// is left as it is (with its cache), and so is its entry of `logits`. The others get the logits,
  /// vocabSize() of them, that follow their prompt's last token. Lengths may differ; a row's logits do not
  /// depend on its neighbours.
  virtual Error prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) = 0;

  /// Appends a token to every row, at the row's own position, and gives the logits that follow it. An idleRow
  /// leaves the row and its logits as they are. As many rows as at the last prefill.
  virtual Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) = 0;

  /// Appends the tokens `tokens[row]` to every row; none where that is empty. `logits[row][i]` become those that follow
  /// token i: the bits that `decode` gives of one token after the other, which is what this does unless a model knows a
  /// faster way. No row may have more than contextLength() tokens afterwards.
  virtual Error verify(ArrayRef<std::vector<int32_t>> tokens, MutableArrayRef<std::vector<std::vector<float>>> logits);
  /// The most tokens of a row of which `verify` knows a faster way; 1: of none.
  virtual int64_t verifyTokens() const { return 1; }

  /// Forgets the tokens of each row after the first `lengths[row]`, of which it has at least one and at least so many;
  /// a negative number leaves the row as it is.
  virtual void truncate(ArrayRef<int64_t> lengths) = 0;

  /// Opens a stream over this model; one at a time. The model must outlive it. By default, it chooses on the host.
  virtual std::unique_ptr<TokenStream> openStream(const StreamOptions &options);
};

} // namespace kiln
