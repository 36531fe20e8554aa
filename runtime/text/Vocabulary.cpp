#include "runtime/text/Vocabulary.h"

#include "runtime/text/VocabularyBuilder.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace fs = llvm::sys::fs;

Error readMergesText(VocabularyBuilder &builder, const SourceFile *file) {
  StringRef rest = *file->text;
  for (unsigned number = 1; !rest.empty(); ++number) {
    auto [line, following] = rest.split('\n');
    rest = following;
    line.consume_back("\r");
    if (number == 1 && line.starts_with("#version"))
      continue;
    auto [left, right] = line.split(' ');
    if (left.empty() || right.empty() || right.contains(' '))
      return makeError({file, number, 1}, "merge: expected two parts separated by one space, got '" + line + "'");
    auto rightColumn = static_cast<unsigned>(left.size() + 2);
    if (Error error = builder.addMerge(left, {file, number, 1}, right, {file, number, rightColumn}))
      return error;
  }
  return builder.finishMerges(file);
}

/// Reads `added_tokens.json`, an object from text to id, if the file exists.
static Error readAddedTokens(VocabularyBuilder &builder, SourceManager &sources, StringRef path) {
  if (!fs::exists(path))
    return Error::success();
  Expected<const SourceFile *> file = sources.open(path);
  if (!file)
    return file.takeError();
  Expected<JsonObject> object = parseJsonObject(*file);
  if (!object)
    return object.takeError();
  for (const JsonObject::Member &member : object->members) {
    std::optional<int64_t> id = object->values.getInteger(member.key);
    if (!id)
      return makeError(member.valueLoc, "'" + member.key + "': expected an integer id");
    if (Error error = builder.addSpecial(member.key, *id, member.keyLoc))
      return error;
  }
  return Error::success();
}

static Error readVocabularyAndMerges(VocabularyBuilder &builder, SourceManager &sources, StringRef vocabularyPath,
                                     StringRef addedPath, StringRef mergesPath) {
  Expected<const SourceFile *> vocabularyFile = sources.open(vocabularyPath);
  if (!vocabularyFile)
    return vocabularyFile.takeError();
  Expected<JsonObject> tokens = parseJsonObject(*vocabularyFile);
  if (!tokens)
    return tokens.takeError();
  if (Error error = builder.addTokens(*tokens))
    return error;
  for (const JsonObject::Member &member : tokens->members)
    if (member.key == "<|endoftext|>")
      if (Error error = builder.addSpecial(member.key, *tokens->values.getInteger(member.key), member.keyLoc))
        return error;
  if (Error error = readAddedTokens(builder, sources, addedPath))
    return error;
  if (Error error = builder.finishTokens(vocabularyPath))
    return error;
  Expected<const SourceFile *> mergesFile = sources.open(mergesPath);
  return mergesFile ? readMergesText(builder, *mergesFile) : mergesFile.takeError();
}

Expected<Vocabulary> loadVocabulary(StringRef directory) {
  auto pathOf = [&](StringRef name) {
    SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    return path.str().str();
  };
  auto firstPresent = [&](std::initializer_list<StringRef> names) {
    for (StringRef name : names)
      if (fs::exists(pathOf(name)))
        return pathOf(name);
    return std::string();
  };
  std::string vocabularyPath = firstPresent({"vocab.json", "encoder.json"});
  std::string mergesPath = firstPresent({"merges.txt", "vocab.bpe"});
  std::string tokenizerPath = firstPresent({"tokenizer.json"});

  SourceManager sources;
  VocabularyBuilder builder;
  if (!vocabularyPath.empty() && !mergesPath.empty()) {
    if (Error error =
            readVocabularyAndMerges(builder, sources, vocabularyPath, pathOf("added_tokens.json"), mergesPath))
      return error;
    return builder.take();
  }
  if (tokenizerPath.empty())
    return makeFileError(directory, "expected vocab.json and merges.txt, or tokenizer.json, got " +
                                        Twine(!vocabularyPath.empty() ? "no merges.txt"
                                              : !mergesPath.empty()   ? "no vocab.json"
                                                                      : "none of them"));
  Expected<const SourceFile *> file = sources.open(tokenizerPath);
  if (!file)
    return file.takeError();
  if (Error error = readTokenizerJson(builder, *file))
    return error;
  return builder.take();
}

} // namespace kiln
