//===- TokenizerJson.cpp - the one-file format of Hugging Face's tokenizers ---===//
//
// The format describes any pipeline of normaliser, pre-tokenizer, model and post-processor. Only GPT-2's pipeline is
// implemented: a setting that would give other ids is refused by name.
//
//===----------------------------------------------------------------------===//

#include "runtime/text/VocabularyBuilder.h"

#include "support/Diagnostic.h"

namespace kiln {

/// The member with this name; the last one if there are several, as in `object.values`.
static const JsonObject::Member *findMember(const JsonObject &object, StringRef key) {
  for (const JsonObject::Member &member : llvm::reverse(object.members))
    if (member.key == key)
      return &member;
  return nullptr;
}

/// A member that exists and is not null.
static const JsonObject::Member *findValue(const JsonObject &object, StringRef key) {
  const json::Value *value = object.values.get(key);
  return value && !value->getAsNull() ? findMember(object, key) : nullptr;
}

static Expected<JsonObject> requireObject(const JsonObject &parent, StringRef key) {
  const JsonObject::Member *member = findMember(parent, key);
  if (!member)
    return makeFileError(parent.file->name, "expected a member '" + key + "'");
  return childObject(parent, *member);
}

/// Refuses an option with another value than `wanted`. Absent and null mean the default.
static Error expectOption(const JsonObject &object, StringRef key, const json::Value &wanted) {
  const json::Value *value = object.values.get(key);
  if (!value || value->getAsNull() || *value == wanted)
    return Error::success();
  return makeError(object.valueLoc(key), formatv("{0}: expected {1}, got {2}", key, wanted, *value).str());
}

/// Checks that a member is absent, null or an object of `"type": "ByteLevel"`.
static Error expectByteLevel(const JsonObject &file, StringRef key, bool isRequired) {
  const JsonObject::Member *member = findValue(file, key);
  if (!member)
    return isRequired ? makeFileError(file.file->name, key + ": expected type ByteLevel, got none") : Error::success();
  Expected<JsonObject> object = childObject(file, *member);
  if (!object)
    return object.takeError();
  StringRef type = object->values.getString("type").value_or("none");
  if (type != "ByteLevel")
    return makeError(member->valueLoc, key + ": expected type ByteLevel, got " + type);
  if (!isRequired)
    return Error::success();
  // Only the pre-tokenizer's options change ids; a post-processor of this type only trims offsets.
  if (Error error = expectOption(*object, "add_prefix_space", false))
    return error;
  return expectOption(*object, "use_regex", true);
}

static Error checkPipeline(const JsonObject &file) {
  if (const JsonObject::Member *normalizer = findValue(file, "normalizer"))
    return makeError(normalizer->valueLoc, "normalizer: expected null, since GPT-2 does not normalise");
  if (Error error = expectByteLevel(file, "pre_tokenizer", /*isRequired=*/true))
    return error;
  return expectByteLevel(file, "post_processor", /*isRequired=*/false);
}

static Error checkModel(const JsonObject &model) {
  const std::pair<StringRef, json::Value> options[] = {
      {"type", "BPE"},          {"dropout", 0.0},        {"continuing_subword_prefix", ""}, {"end_of_word_suffix", ""},
      {"byte_fallback", false}, {"ignore_merges", false}};
  for (const auto &[key, wanted] : options)
    if (Error error = expectOption(model, key, wanted))
      return error;
  return Error::success();
}

static Error readAddedToken(VocabularyBuilder &builder, const json::Value &value, Location loc) {
  const json::Object *token = value.getAsObject();
  std::optional<StringRef> content = token ? token->getString("content") : std::nullopt;
  std::optional<int64_t> id = token ? token->getInteger("id") : std::nullopt;
  if (!content || !id)
    return makeError(loc, "added token: expected an object with a string 'content' and an integer 'id'");
  for (StringRef option : {"single_word", "lstrip", "rstrip"})
    if (token->getBoolean(option).value_or(false))
      return makeError(loc, "added token '" + *content + "': expected " + option + " false, got true");
  return builder.addSpecial(*content, *id, loc);
}

static Error readAddedTokens(VocabularyBuilder &builder, const JsonObject &file) {
  const JsonObject::Member *member = findValue(file, "added_tokens");
  if (!member)
    return Error::success();
  const json::Array *tokens = file.values.getArray("added_tokens");
  if (!tokens)
    return makeError(member->valueLoc, "added_tokens: expected an array");
  std::vector<Location> locs = elementLocs(file, *member);
  for (size_t i = 0; i < tokens->size(); ++i)
    if (Error error = readAddedToken(builder, (*tokens)[i], locs[i]))
      return error;
  return Error::success();
}

/// Reads one merge: `"a b"` in older files, `["a", "b"]` in newer ones.
static Error readMerge(VocabularyBuilder &builder, const json::Value &value, Location loc) {
  std::optional<StringRef> left, right;
  if (std::optional<StringRef> line = value.getAsString()) {
    if (line->count(' ') == 1)
      std::tie(left, right) = line->split(' ');
  } else if (const json::Array *pair = value.getAsArray(); pair && pair->size() == 2) {
    left = (*pair)[0].getAsString();
    right = (*pair)[1].getAsString();
  }
  if (!left || !right || left->empty() || right->empty())
    return makeError(loc, "merge: expected two parts");
  return builder.addMerge(*left, loc, *right, loc);
}

static Error readMerges(VocabularyBuilder &builder, const JsonObject &model) {
  const JsonObject::Member *member = findMember(model, "merges");
  const json::Array *merges = model.values.getArray("merges");
  if (!merges)
    return makeError(model.valueLoc("merges"), "model: expected an array 'merges'");
  std::vector<Location> locs = elementLocs(model, *member);
  for (size_t i = 0; i < merges->size(); ++i)
    if (Error error = readMerge(builder, (*merges)[i], locs[i]))
      return error;
  return Error::success();
}

Error readTokenizerJson(VocabularyBuilder &builder, const SourceFile *source) {
  Expected<JsonObject> file = parseJsonObject(source);
  if (!file)
    return file.takeError();
  Expected<JsonObject> model = requireObject(*file, "model");
  if (!model)
    return model.takeError();
  if (Error error = llvm::joinErrors(checkModel(*model), checkPipeline(*file)))
    return error;
  Expected<JsonObject> tokens = requireObject(*model, "vocab");
  if (!tokens)
    return tokens.takeError();
  if (Error error = builder.addTokens(*tokens))
    return error;
  if (Error error = readAddedTokens(builder, *file))
    return error;
  if (Error error = builder.finishTokens(source->name))
    return error;
  if (Error error = readMerges(builder, *model))
    return error;
  return builder.finishMerges(source);
}

} // namespace kiln
