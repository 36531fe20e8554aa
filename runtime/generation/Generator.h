//===- Generator.h - generating text from prompts -------------------------===//
#pragma once

#include "runtime/generation/sampling/LogProbabilities.h"
#include "runtime/generation/speculation/SpeculativeStream.h"
#include "runtime/text/Tokenizer.h"
#include "support/process/Trace.h"

namespace kiln {

/// What to do about a sequence that does not fit in the model's context.
enum class OverflowPolicy {
  Error, ///< refuse, before anything runs, prompts that with their new tokens may not fit
  Stop,  ///< end the sequence when it fills the context
  Slide  ///< when the next token would not fit, keep the last tokens and evaluate those again from position 0:
         ///< GPT-2's positions are learned, so a cache cannot be shifted
};

/// `error`, `stop`, `slide`.
std::optional<OverflowPolicy> parseOverflowPolicy(StringRef name);

enum class FinishReason { Length, Stop, Eos, Cancelled };

/// `length`, `stop`, `eos`, `cancelled`.
StringRef finishReasonName(FinishReason reason);

/// How one sequence is generated.
struct SequenceOptions {
  int64_t maxNewTokens = 128;
  SamplingParams sampling;
  LogitOptions logits;         ///< what is done to them first
  std::vector<int32_t> eosIds; ///< the sequence ends with one of these, which is its last token
  bool ignoreEos = false;
  std::vector<std::string> stopStrings; ///< the sequence ends when its new text contains one of these
  OverflowPolicy overflow = OverflowPolicy::Error;
  int64_t slideKeep = 0;                   ///< tokens to keep when the context slides; 0: half the context
  std::optional<int64_t> logProbabilities; ///< wanted, with those of so many tokens in each one's place
  bool echo = false;                       ///< with logProbabilities: also those of the prompt's tokens
};

/// What all sequences of a job share.
struct JobOptions {
  bool keepLogits = false;
  Draft *draft = nullptr; ///< guesses tokens; the tokens are the same without it
  DraftLength draftLength;
  Trace *trace = nullptr; ///< where prompts and steps become spans, with the times of the Generation

  /// Called for each new token as it comes, with the text that has become certain: valid UTF-8, without stop
  /// strings. The texts of a sequence's tokens, one after the other, are its Generation::text.
  std::function<void(size_t sequence, int32_t token, StringRef text)> onToken;

  /// Asked before prompts are started and before each step; true ends all sequences as they are, without text that is
  /// still held back, and those that have not been started.
  std::function<bool()> isCancelled;
};

/// For sequences that have the same options.
struct GenerateOptions : SequenceOptions, JobOptions {};

struct Generation {
  std::vector<int32_t> promptTokens;
  std::vector<int32_t> newTokens; ///< up to and including what ended the sequence
  /// The text of the new tokens without a final EOS, up to a stop string; empty without a tokenizer.
  std::string text;
  FinishReason finishReason = FinishReason::Length;
  std::vector<std::vector<float>> logits;               ///< if kept: the logits from which each new token was chosen
  std::vector<ChosenLogProbabilities> logProbabilities; ///< if wanted: of each new token
  /// With SequenceOptions::echo: of each token of the prompt but the first, which follows nothing.
  std::optional<std::vector<ChosenLogProbabilities>> promptLogProbabilities;
  double promptMs = 0;           ///< time to evaluate the prompts that were started together
  std::vector<double> tokenMs;   ///< time of the step that gave each new token
  SpeculationCounts speculation; ///< of guesses, if a draft was given
};

/// A sequence to generate.
struct GenerationRequest {
  std::vector<int32_t> prompt;
  uint64_t sequence = 0; ///< of the noise
  SequenceOptions options;
};

/// Error: an option that a model with this vocabulary and context cannot honour, with or without a tokenizer. The
/// message names the flag of `kiln run`, or slideKeep, for which that has none.
Error checkSequenceOptions(const SequenceOptions &options, int64_t vocabulary, int64_t context, bool hasTokenizer);

/// What is wrong with a prompt for a model with this vocabulary and context: it is empty, longer than the context, or
/// has an id that the model does not know; under OverflowPolicy::Error, together with maxNewTokens it does not fit.
/// Empty if nothing is.
std::string promptProblem(ArrayRef<int32_t> prompt, const SequenceOptions &options, int64_t vocabulary,
                          int64_t context);

/// Generates a sequence for each request, `rows` of them side by side: when one has ended, the next request takes its
/// row. Each result depends on its request alone. `onFinished` takes the results as sequences end; its errors end the
/// job. `rows` is from 1 to model.maxBatch(). `tokenizer` may be null if no text is wanted.
///
/// Errors before anything runs: those of checkSequenceOptions, and what promptProblem finds. Errors later:
/// those of the model; logits that are not finite; a chosen id that the tokenizer does not know.
Error generateEach(LanguageModel &model, const Tokenizer *tokenizer, ArrayRef<GenerationRequest> requests, size_t rows,
                   const JobOptions &options, function_ref<Error(size_t request, Generation result)> onFinished);

/// Like generateEach on one model, on several copies of it, such as one on each GPU. Each runs `rows` sequences side by
/// side, in a thread of its own, and takes the next request when it has a free row. The functions that are passed are
/// called by one thread at a time. Not with a draft.
Error generateEach(ArrayRef<LanguageModel *> models, const Tokenizer *tokenizer, ArrayRef<GenerationRequest> requests,
                   size_t rows, const JobOptions &options,
                   function_ref<Error(size_t request, Generation result)> onFinished);

/// Generates a sequence for each prompt, as many side by side as the model takes. A sequence depends on its prompt, its
/// index, by which its noise differs from that of the others, and the options. Errors as of generateEach.
Expected<std::vector<Generation>> generate(LanguageModel &model, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options);
Expected<std::vector<Generation>> generate(ArrayRef<LanguageModel *> models, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options);

} // namespace kiln
