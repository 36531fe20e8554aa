#include "runtime/text/Vocabulary.h"

#include "formats/Gguf.h"
#include "formats/LlmcTokenizer.h"
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

static std::string pathIn(StringRef directory, StringRef name) {
  SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

/// The first of these files that exists; empty if none does.
static std::string firstPresent(StringRef directory, std::initializer_list<StringRef> names) {
  for (StringRef name : names)
    if (std::string path = pathIn(directory, name); fs::exists(path))
      return path;
  return "";
}

static std::string addedTokensIn(StringRef directory) { return pathIn(directory, "added_tokens.json"); }

namespace {
/// Where a directory has its vocabulary; empty: not there.
struct VocabularyFiles {
  explicit VocabularyFiles(StringRef directory)
      : vocabulary(firstPresent(directory, {"vocab.json", "encoder.json"})),
        merges(firstPresent(directory, {"merges.txt", "vocab.bpe"})),
        tokenizer(firstPresent(directory, {"tokenizer.json"})), llmc(firstPresent(directory, {"gpt2_tokenizer.bin"})) {}

  std::string vocabulary, merges, tokenizer, llmc;
};
} // namespace

static Expected<Vocabulary> loadDirectory(StringRef directory) {
  VocabularyFiles files(directory);
  SourceManager sources;
  VocabularyBuilder builder;
  if (!files.vocabulary.empty() && !files.merges.empty()) {
    if (Error error =
            readVocabularyAndMerges(builder, sources, files.vocabulary, addedTokensIn(directory), files.merges))
      return error;
    return builder.take();
  }
  if (files.tokenizer.empty() && !files.llmc.empty())
    return readLlmcVocabulary(files.llmc);
  if (files.tokenizer.empty())
    return makeFileError(directory, "expected vocab.json and merges.txt, tokenizer.json, or gpt2_tokenizer.bin, got " +
                                        Twine(!files.vocabulary.empty() ? "no merges.txt"
                                              : !files.merges.empty()   ? "no vocab.json"
                                                                        : "none of them"));
  Expected<const SourceFile *> file = sources.open(files.tokenizer);
  if (!file)
    return file.takeError();
  if (Error error = readTokenizerJson(builder, *file))
    return error;
  return builder.take();
}

/// The directory of a file: `.` for a plain name.
static StringRef directoryOf(StringRef path) {
  StringRef parent = llvm::sys::path::parent_path(path);
  return parent.empty() ? "." : parent;
}

/// Whether a file is a GGUF file, by its first bytes.
static bool isGguf(StringRef path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (file)
    return GgufFile::isGguf(file->bytes());
  llvm::consumeError(file.takeError());
  return false;
}

Expected<Vocabulary> loadVocabulary(StringRef path) {
  if (!fs::is_regular_file(path))
    return loadDirectory(path);
  if (isLlmcTokenizer(path))
    return readLlmcVocabulary(path);
  if (!isGguf(path))
    return loadDirectory(directoryOf(path));
  VocabularyBuilder builder;
  if (Error error = readGgufVocabulary(builder, path))
    return error;
  return builder.take();
}

std::vector<std::string> filesOfVocabulary(StringRef path) {
  bool isFile = fs::is_regular_file(path);
  if (isFile && isLlmcTokenizer(path))
    return {path.str()};
  if (isFile && isGguf(path))
    return hasGgufVocabulary(path) ? std::vector<std::string>{path.str()} : std::vector<std::string>{};
  std::string directory = (isFile ? directoryOf(path) : path).str();
  VocabularyFiles files(directory);
  if (!files.vocabulary.empty() && !files.merges.empty()) {
    std::vector<std::string> all = {files.vocabulary, files.merges};
    if (std::string added = addedTokensIn(directory); fs::exists(added))
      all.push_back(added);
    return all;
  }
  for (const std::string &file : {files.tokenizer, files.llmc, files.vocabulary})
    if (!file.empty())
      return {file};
  return {};
}

bool hasVocabulary(StringRef path) { return !filesOfVocabulary(path).empty(); }

} // namespace kiln
