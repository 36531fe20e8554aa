//===- Generator.h - generating text from prompts -------------------------===//
#pragma once

#include "runtime/generation/SpeculativeStream.h"
#include "runtime/text/Tokenizer.h"
#include "support/Trace.h"

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

struct GenerateOptions {
  int64_t maxNewTokens = 128; ///< for each sequence
  SamplingParams sampling;
  std::vector<int32_t> eosIds; ///< a sequence ends with one of these, which is its last token
  bool ignoreEos = false;
  std::vector<std::string> stopStrings; ///< a sequence ends when its new text contains one of these
  OverflowPolicy overflow = OverflowPolicy::Error;
  int64_t slideKeep = 0; ///< tokens to keep when the context slides; 0: half the context
  bool keepLogits = false;
  Draft *draft = nullptr; ///< guesses tokens; the tokens are the same without it
  DraftLength draftLength;
  Trace *trace = nullptr; ///< where prompts and steps become spans, with the times of the Generation

  /// Called for each new token as it comes, with the text that has become certain: valid UTF-8, without stop
  /// strings. The texts of a sequence's tokens, one after the other, are its Generation::text.
  std::function<void(size_t sequence, int32_t token, StringRef text)> onToken;

  /// Asked before prompts are evaluated and before every step, if given. True ends all sequences as they are,
  /// without text that has not become certain.
  std::function<bool()> isCancelled;
};

struct Generation {
  std::vector<int32_t> promptTokens;
  std::vector<int32_t> newTokens; ///< up to and including what ended the sequence
  /// The text of the new tokens without a final EOS, up to a stop string; empty without a tokenizer.
  std::string text;
  FinishReason finishReason = FinishReason::Length;
  std::vector<std::vector<float>> logits; ///< if kept: the logits from which each new token was chosen
  double promptMs = 0;                    ///< time to evaluate the batch's prompts
  std::vector<double> tokenMs;            ///< time of the step that gave each new token
  SpeculationCounts speculation;          ///< of guesses, if a draft was given
};

/// Checks a prompt, the one of that index. Error: it is empty, longer than the context, or has an id that the model
/// does not know.
Error checkPrompt(const LanguageModel &model, size_t index, ArrayRef<int32_t> prompt);

/// Generates a sequence for each prompt, in batches of what the model takes. A sequence depends on its
/// prompt, its index and the options, and not on the other prompts. `tokenizer` may be null if no text is
/// wanted.
///
/// Errors before anything runs: bad options (the message names the flag); a prompt that is empty, longer than
/// the context, or has an id that the model does not know; under OverflowPolicy::Error, a prompt that
/// together with maxNewTokens does not fit. Errors later: those of the model; logits that are not finite; a
/// chosen id that the tokenizer does not know.
Expected<std::vector<Generation>> generate(LanguageModel &model, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options);

} // namespace kiln
