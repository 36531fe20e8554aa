//===- GgufVocabulary.cpp - the tokenizer inside a GGUF file ------------------===//

#include "formats/Gguf.h"
#include "runtime/text/VocabularyBuilder.h"
#include "support/Diagnostic.h"

namespace kiln {

static constexpr StringRef tokensKey = "tokenizer.ggml.tokens", typesKey = "tokenizer.ggml.token_type",
                           mergesKey = "tokenizer.ggml.merges", modelKey = "tokenizer.ggml.model",
                           preKey = "tokenizer.ggml.pre";

/// ggml's types of tokens that are matched in text as they stand.
static constexpr int64_t controlType = 3, userDefinedType = 4;
/// The type of tokens that only fill the model's vocabulary.
static constexpr int64_t unusedType = 5;

static Expected<std::shared_ptr<const GgufFile>> openGguf(StringRef path) {
  Expected<MappedFile> mapping = MappedFile::open(path);
  if (!mapping)
    return mapping.takeError();
  return GgufFile::open(std::move(*mapping));
}

/// Refuses tokenizers that would give other ids than GPT-2's.
static Error checkPipeline(const GgufFile &file) {
  Expected<StringRef> model = file.text(modelKey);
  if (!model)
    return model.takeError();
  if (*model != "gpt2")
    return file.fail(modelKey, "expected 'gpt2', got '" + *model + "'");
  if (file.has(preKey)) {
    Expected<StringRef> pre = file.text(preKey);
    if (!pre)
      return pre.takeError();
    if (*pre != "gpt-2" && *pre != "default")
      return file.fail(preKey, "expected 'gpt-2' or 'default', got '" + *pre + "'");
  }
  for (StringRef key :
       {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix"}) {
    Expected<bool> isSet = file.flag(key);
    if (!isSet)
      return isSet.takeError();
    if (*isSet)
      return file.fail(key, "expected false, as for GPT-2, got true");
  }
  return Error::success();
}

/// Adds the key and the item of an array to an error of the builder, which knows no places in binary files.
static Error inItem(const GgufFile &file, StringRef key, size_t item, Error error) {
  if (!error)
    return error;
  std::string message = takeDiagnostics(std::move(error)).front().message;
  return file.fail(key, "item " + Twine(item) + ": " + message);
}

/// `place`: the file, for messages of the builder.
static Error addTokens(VocabularyBuilder &builder, const GgufFile &file, Location place) {
  Expected<ArrayRef<StringRef>> tokens = file.texts(tokensKey);
  if (!tokens)
    return tokens.takeError();
  std::vector<int64_t> types(tokens->size(), 0);
  if (file.has(typesKey))
    if (Error error = file.integers(typesKey).moveInto(types))
      return error;
  if (types.size() != tokens->size())
    return file.fail(typesKey,
                     "expected a type for each of " + Twine(tokens->size()) + " tokens, got " + Twine(types.size()));
  size_t count = types.size();
  while (count > 0 && types[count - 1] == unusedType)
    --count;
  for (const auto &[id, token] : llvm::enumerate(tokens->take_front(count))) {
    bool isSpecial = types[id] == controlType || types[id] == userDefinedType || token == "<|endoftext|>";
    Error error = builder.addToken(token, static_cast<int64_t>(id), place);
    if (!error && isSpecial)
      error = builder.addSpecial(token, static_cast<int64_t>(id), place);
    if (error)
      return inItem(file, tokensKey, id, std::move(error));
  }
  return builder.finishTokens(file.path());
}

static Error addMerges(VocabularyBuilder &builder, const GgufFile &file, Location place) {
  Expected<ArrayRef<StringRef>> merges = file.texts(mergesKey);
  if (!merges)
    return merges.takeError();
  for (const auto &[i, merge] : llvm::enumerate(*merges)) {
    auto [left, right] = merge.split(' ');
    if (left.empty() || right.empty() || right.contains(' '))
      return file.fail(mergesKey, "item " + Twine(i) + ": expected two parts separated by one space, got '" +
                                      merge.take_front(60) + "'");
    if (Error error = builder.addMerge(left, place, right, place))
      return inItem(file, mergesKey, i, std::move(error));
  }
  return builder.finishMerges(place.file);
}

Error readGgufVocabulary(VocabularyBuilder &builder, StringRef path) {
  Expected<std::shared_ptr<const GgufFile>> file = openGguf(path);
  if (!file)
    return file.takeError();
  if (Error error = checkPipeline(**file))
    return error;
  SourceFile source{path.str(), std::nullopt};
  if (Error error = addTokens(builder, **file, {&source}))
    return error;
  return addMerges(builder, **file, {&source});
}

bool hasGgufVocabulary(StringRef path) {
  Expected<std::shared_ptr<const GgufFile>> file = openGguf(path);
  if (file)
    return (*file)->has(tokensKey);
  llvm::consumeError(file.takeError());
  return true;
}

} // namespace kiln
