//===- EvalData.h - texts and questions by which models are scored ------------===//
//
// In the forms in which people have them. A form is given, or recognised from the file:
// - text: a file as it is, such as WikiText-2's wiki.test.raw;
// - wikitext: a file whose lines are joined as Hugging Face's page on perplexity joins the rows of its WikiText-2, with
//   two more line ends between them. Never recognised: it is a plain text, too;
// - jsonl: an object with `text` a line, as Hugging Face's datasets write them; the texts are joined by "\n\n";
// - tokens: llm.c's or nanoGPT's token files (formats/LlmcTokens.h); those of nanoGPT are not recognised;
// - hellaswag: multiple-choice questions, llm.c's file (formats/LlmcChoices.h) or HellaSwag's own lines of JSON, with
//   `ctx` (or `ctx_a` and `ctx_b`), `endings` and `label`. An ending is the tokens of a space and its text.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "formats/LlmcChoices.h"
#include "runtime/text/Tokenizer.h"

namespace kiln {

enum class EvalForm : uint8_t { Text, Wikitext, Jsonl, Tokens, HellaSwag };

/// The names of the forms, in their order: text, wikitext, jsonl, tokens, hellaswag.
std::vector<std::string> evalFormNames();
std::optional<EvalForm> parseEvalForm(StringRef name);

struct EvalData {
  std::vector<int32_t> tokens;         ///< of a text; none if there are examples
  std::vector<ChoiceExample> examples; ///< of multiple-choice questions
};

/// Reads what the user names, also a pipe; - is standard input. `form`: none, to recognise it. `tokenizer`: null if the
/// model has no vocabulary, which only files of tokens do without; `vocabulary` is the size of the model's. Errors with
/// places: a file that cannot be read, or that is not of its form; a text and no tokenizer.
Expected<EvalData> readEvalData(StringRef path, std::optional<EvalForm> form, const Tokenizer *tokenizer,
                                int64_t vocabulary);

/// The same for bytes that were read from `path`.
Expected<EvalData> parseEvalData(StringRef path, StringRef bytes, std::optional<EvalForm> form,
                                 const Tokenizer *tokenizer, int64_t vocabulary);

} // namespace kiln
