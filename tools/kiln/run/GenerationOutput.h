//===- GenerationOutput.h - what `kiln run` prints of sequences ------------===//
#pragma once

#include "runtime/generation/Generator.h"

namespace kiln {

/// `prompt_tokens`, `tokens`, `text`, `finish_reason`, and `logprobs` and `prompt_logprobs` where there are some.
json::Object toJson(const Generation &generation);
/// Also `timing`, and if wanted `logits` and `speculation`.
json::Object toJson(const Generation &generation, bool withLogits, bool withDraft);

/// Prints a table to standard output: a row for each token that has a log-probability, and for the prompt's first.
/// `tokenizer` may be null.
void printLogProbabilities(const Generation &generation, const Tokenizer *tokenizer);

/// Prints the rates of prompts and steps to standard error.
void printSummary(ArrayRef<Generation> generations);
/// What became of all guesses.
struct SpeculationTotals {
  SpeculationCounts counts;
  int64_t tokens = 0; ///< that passes gave

  void add(const Generation &generation);
  void print() const; ///< to standard error
};

} // namespace kiln
