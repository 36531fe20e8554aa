//===- EvalLines.h - texts and questions as lines of JSON ---------------------===//
#pragma once

#include "formats/LlmcChoices.h"
#include "runtime/text/Tokenizer.h"

namespace kiln {

/// The texts of lines that are objects with `text`, joined by "\n\n". Other fields and empty lines are passed over.
/// Error, with its place: no JSON, or no text.
Expected<std::string> joinTextLines(StringRef path, StringRef bytes);

/// The questions of lines that are objects with `ctx`, or `ctx_a` and `ctx_b`, `endings` and `label`, an integer or an
/// integer as text. Other fields and empty lines are passed over. Error, with its place: no JSON; a field that is
/// missing or of another type; fewer than two endings; a label that is none of them.
Expected<std::vector<ChoiceExample>> parseChoiceLines(StringRef path, StringRef bytes, const Tokenizer &tokenizer);

} // namespace kiln
