//===- RequestLines.h - prompts as lines of JSON --------------------------===//
#pragma once

#include "tools/kiln/CommandLine.h"

namespace kiln {

/// A sequence that `kiln run --input` is to generate.
struct LineRequest {
  GenerationRequest generation;
  json::Value id = nullptr;           ///< of the line, for the result; null: none
  std::optional<int64_t> sample = {}; ///< which of the line's samples, if it wants several
  unsigned line = 0;                  ///< its number in the input
};

/// What lines mean for a model.
struct LineContext {
  SequenceOptions defaults;             ///< of options that a line does not have
  bool special = false;                 ///< likewise: special tokens of the text become their ids
  int64_t samples = 1;                  ///< likewise
  const Tokenizer *tokenizer = nullptr; ///< null: lines must give tokens
  std::optional<int32_t> begin;         ///< what an empty prompt becomes
  int64_t vocabulary = 0, context = 0;  ///< of the model
};

/// The requests of an input in its order, one for each sample of a line. A line is an object: `prompt` (text) or
/// `tokens` (ids), `id` (any value), and options, named as on the command line with underscores; empty lines are
/// skipped. The sequence of a line's noise is the number of its sample, so that it depends on nothing but the line.
/// Errors have places, and those of several lines are reported together: no JSON; an unknown, repeated or missing
/// field; a value that the option does not take; a prompt that the model does not take.
Expected<std::vector<LineRequest>> readRequestLines(StringRef path, const LineContext &context);

/// The same for text that was read from `path`.
Expected<std::vector<LineRequest>> parseRequestLines(StringRef path, StringRef text, const LineContext &context);

} // namespace kiln
