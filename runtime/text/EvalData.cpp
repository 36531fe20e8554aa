#include "runtime/text/EvalData.h"

#include "formats/LlmcTokens.h"
#include "runtime/text/EvalLines.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/text/Json.h"

namespace kiln {

static constexpr std::pair<StringRef, EvalForm> formNames[] = {{"text", EvalForm::Text},
                                                               {"wikitext", EvalForm::Wikitext},
                                                               {"jsonl", EvalForm::Jsonl},
                                                               {"tokens", EvalForm::Tokens},
                                                               {"hellaswag", EvalForm::HellaSwag}};

std::vector<std::string> evalFormNames() {
  std::vector<std::string> names;
  for (const auto &[name, form] : formNames)
    names.push_back(name.str());
  return names;
}

std::optional<EvalForm> parseEvalForm(StringRef name) {
  for (const auto &[known, form] : formNames)
    if (known == name)
      return form;
  return std::nullopt;
}

/// The form of lines of JSON, by the fields of the first one that is not empty; none if it is no such object.
static std::optional<EvalForm> formOfLines(StringRef bytes) {
  StringRef line = bytes.ltrim().split('\n').first;
  if (!line.starts_with("{"))
    return std::nullopt;
  const SourceFile file{"", line.str()};
  Expected<JsonObject> object = parseJsonObject(&file);
  if (!object) {
    llvm::consumeError(object.takeError());
    return std::nullopt;
  }
  if (object->values.get("endings"))
    return EvalForm::HellaSwag;
  return object->values.get("text") ? std::optional(EvalForm::Jsonl) : std::nullopt;
}

static Expected<EvalForm> recognise(StringRef path, StringRef bytes) {
  std::optional<int32_t> magic = firstInteger(bytes);
  if (magic == llmcTokensMagic || magic == llmcWideTokensMagic)
    return EvalForm::Tokens;
  if (magic == llmcChoicesMagic)
    return EvalForm::HellaSwag;
  if (std::optional<EvalForm> form = formOfLines(bytes))
    return *form;
  if (path.ends_with(".jsonl"))
    return makeFileError(path, "line 1: expected an object with text, or with ctx, endings and label");
  if (path.ends_with(".bin") && bytes.contains('\0'))
    return makeFileError(path, "byte 0: expected a magic number of llm.c's tokens or questions; nanoGPT's tokens have "
                               "none: give --format tokens");
  return EvalForm::Text;
}

/// The text of the rows that Hugging Face makes of WikiText's lines: with its line end, or empty where a line is blank.
static std::string joinWikitext(StringRef bytes) {
  std::string joined;
  for (bool isFirst = true; !bytes.empty(); isFirst = false) {
    StringRef line = bytes.take_front(std::min(bytes.find('\n'), bytes.size() - 1) + 1);
    bytes = bytes.drop_front(line.size());
    joined += isFirst ? "" : "\n\n";
    joined += line.trim().empty() ? "" : line;
  }
  return joined;
}

static Error parseForm(StringRef path, StringRef bytes, EvalForm form, const Tokenizer *tokenizer, int64_t vocabulary,
                       EvalData &data) {
  if (form == EvalForm::Tokens)
    return readTokenFile(path, bytes, vocabulary).moveInto(data.tokens);
  if (form == EvalForm::HellaSwag && firstInteger(bytes) == llmcChoicesMagic)
    return readLlmcChoices(path, bytes, vocabulary).moveInto(data.examples);
  if (!tokenizer)
    return makeFileError(path, "expected a file of tokens, since the model has no vocabulary for a text; --weights may "
                               "name one");
  if (form == EvalForm::HellaSwag)
    return parseChoiceLines(path, bytes, *tokenizer).moveInto(data.examples);
  std::string text;
  if (form == EvalForm::Jsonl)
    if (Error error = joinTextLines(path, bytes).moveInto(text))
      return error;
  if (form == EvalForm::Wikitext)
    text = joinWikitext(bytes);
  data.tokens = tokenizer->encode(form == EvalForm::Text ? bytes : StringRef(text));
  return Error::success();
}

Expected<EvalData> parseEvalData(StringRef path, StringRef bytes, std::optional<EvalForm> form,
                                 const Tokenizer *tokenizer, int64_t vocabulary) {
  if (!form) {
    Expected<EvalForm> recognised = recognise(path, bytes);
    if (!recognised)
      return recognised.takeError();
    form = *recognised;
  }
  EvalData data;
  if (Error error = parseForm(path, bytes, *form, tokenizer, vocabulary, data))
    return error;
  return data;
}

Expected<EvalData> readEvalData(StringRef path, std::optional<EvalForm> form, const Tokenizer *tokenizer,
                                int64_t vocabulary) {
  Expected<std::string> bytes = readInput(path);
  if (!bytes)
    return bytes.takeError();
  return parseEvalData(inputName(path), *bytes, form, tokenizer, vocabulary);
}

} // namespace kiln
