#include "runtime/text/EvalLines.h"

#include "support/Diagnostic.h"
#include "support/text/Json.h"

namespace kiln {

/// Reads each line that is not empty as an object.
static Error forEachLine(StringRef path, StringRef bytes, function_ref<Error(const JsonObject &)> read) {
  for (unsigned number = 0; !bytes.empty(); ++number) {
    auto [line, rest] = bytes.split('\n');
    bytes = rest;
    if (line.trim().empty())
      continue;
    const SourceFile file{path.str(), line.str(), /*linesBefore=*/number};
    Expected<JsonObject> object = parseJsonObject(&file);
    if (!object)
      return object.takeError();
    if (Error error = read(*object))
      return error;
  }
  return Error::success();
}

/// A field that must be text.
static Expected<StringRef> textField(const JsonObject &object, StringRef key) {
  const json::Value *value = object.values.get(key);
  std::optional<StringRef> text = value ? value->getAsString() : std::nullopt;
  if (!text)
    return makeError(object.valueLoc(key), key + ": expected text, got " + (value ? "another value" : "no such field"));
  return *text;
}

Expected<std::string> joinTextLines(StringRef path, StringRef bytes) {
  std::string joined;
  bool isFirst = true;
  Error error = forEachLine(path, bytes, [&](const JsonObject &object) -> Error {
    Expected<StringRef> text = textField(object, "text");
    if (!text)
      return text.takeError();
    joined += isFirst ? "" : "\n\n";
    joined += *text;
    isFirst = false;
    return Error::success();
  });
  if (error)
    return error;
  return joined;
}

static Expected<std::string> contextOf(const JsonObject &object) {
  if (object.values.get("ctx") || !object.values.get("ctx_a")) {
    Expected<StringRef> text = textField(object, "ctx");
    return text ? Expected<std::string>(text->str()) : text.takeError();
  }
  Expected<StringRef> first = textField(object, "ctx_a"), second = textField(object, "ctx_b");
  if (!first || !second)
    return llvm::joinErrors(first.takeError(), second.takeError());
  return (*first + (second->empty() ? "" : " ") + *second).str();
}

static Error readEndings(const JsonObject &object, const Tokenizer &tokenizer, ChoiceExample &example) {
  const json::Array *endings = object.values.getArray("endings");
  if (!endings || endings->size() < 2)
    return makeError(object.valueLoc("endings"), "endings: expected an array of two texts or more");
  for (const json::Value &value : *endings) {
    std::optional<StringRef> text = value.getAsString();
    if (!text)
      return makeError(object.valueLoc("endings"), "endings: expected an array of texts");
    example.endings.push_back(tokenizer.encode((" " + *text).str()));
  }
  return Error::success();
}

static Error readLabel(const JsonObject &object, ChoiceExample &example) {
  const json::Value *value = object.values.get("label");
  std::optional<int64_t> label;
  if (value && value->kind() == json::Value::Number)
    label = jsonInteger(*value);
  int64_t number;
  if (std::optional<StringRef> text = value ? value->getAsString() : std::nullopt)
    if (!text->getAsInteger(10, number))
      label = number;
  if (!label || *label < 0 || *label >= static_cast<int64_t>(example.endings.size()))
    return makeError(object.valueLoc("label"), "label: expected the number of an ending, 0 to " +
                                                   Twine(example.endings.size() - 1) + ", got " +
                                                   (value ? jsonText(*value) : "no such field"));
  example.label = static_cast<size_t>(*label);
  return Error::success();
}

Expected<std::vector<ChoiceExample>> parseChoiceLines(StringRef path, StringRef bytes, const Tokenizer &tokenizer) {
  std::vector<ChoiceExample> examples;
  Error error = forEachLine(path, bytes, [&](const JsonObject &object) -> Error {
    ChoiceExample &example = examples.emplace_back();
    Expected<std::string> context = contextOf(object);
    if (!context)
      return context.takeError();
    example.context = tokenizer.encode(*context);
    if (example.context.empty())
      return makeError(object.valueLoc("ctx"), "ctx: expected some text, got none");
    if (Error error = readEndings(object, tokenizer, example))
      return error;
    return readLabel(object, example);
  });
  if (error)
    return error;
  if (examples.empty())
    return makeFileError(path, "expected lines with ctx, endings and label, got none");
  return examples;
}

} // namespace kiln
