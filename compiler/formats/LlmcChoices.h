//===- LlmcChoices.h - llm.c's files of multiple-choice questions -------------===//
//
// What llm.c's dev/data/hellaswag.py writes and its `eval_loader` reads: 256 i32 (magic, version 1, number of examples,
// bytes of the longest one), then each example as u16: 65535, its bytes, its index, its label, its number of endings,
// then the context and each ending as a number of tokens and the tokens.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

constexpr int32_t llmcChoicesMagic = 20240522;

/// A text and several ways in which it may go on, as token ids.
struct ChoiceExample {
  std::vector<int32_t> context;              ///< at least one token
  std::vector<std::vector<int32_t>> endings; ///< at least two, each with at least one token
  size_t label = 0;                          ///< the right one
};

/// The examples of a file's bytes. `path` is for messages; `vocabulary` is the model's. Error, `PATH: error: byte N:
/// …`: not such a file, or of another version; counts and sizes that the file does not have; an example out of order; a
/// label that is none of the endings; a context or an ending without tokens; an id that the model does not have.
Expected<std::vector<ChoiceExample>> readLlmcChoices(StringRef path, StringRef bytes, int64_t vocabulary);

} // namespace kiln
