#include "formats/LlmcTokenizer.h"

#include "formats/ByteReader.h"
#include "support/Diagnostic.h"
#include "support/files/MappedFile.h"

namespace kiln {

namespace fs = llvm::sys::fs;

static constexpr size_t headerNumbers = 256;
static constexpr int32_t gpt2EndOfText = 50256;

std::string llmcTokenizerBeside(StringRef model) {
  SmallString<128> path(llvm::sys::path::parent_path(model));
  llvm::sys::path::append(path, "gpt2_tokenizer.bin");
  return path.str().str();
}

static bool hasMagic(ArrayRef<uint8_t> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof magic)
    std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == llmcTokenizerMagic;
}

bool isLlmcTokenizer(StringRef path) {
  if (!fs::is_regular_file(path))
    return false;
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return false;
  }
  return hasMagic(file->bytes());
}

/// Reads the header. Returns the number of tokens.
static Expected<int32_t> readHeader(ByteReader &reader, int32_t &endOfText) {
  Expected<int32_t> magic = reader.read<int32_t>("magic number");
  if (!magic)
    return magic.takeError();
  if (*magic != llmcTokenizerMagic)
    return reader.fail("magic number: expected " + Twine(llmcTokenizerMagic) + ", got " + Twine(*magic));
  Expected<int32_t> version = reader.read<int32_t>("version");
  if (!version)
    return version.takeError();
  if (*version != 1 && *version != 2)
    return reader.fail("version: expected 1 or 2, got " + Twine(*version));
  Expected<int32_t> count = reader.read<int32_t>("number of tokens");
  if (!count)
    return count.takeError();
  Expected<int32_t> end = reader.read<int32_t>("end-of-text token");
  if (!end)
    return end.takeError();
  endOfText = *version == 1 ? gpt2EndOfText : *end;
  if (*count < 1 || endOfText < 0 || endOfText >= *count)
    return reader.fail("end-of-text token: expected one of the " + Twine(*count) + " tokens, got number " +
                       Twine(endOfText));
  Expected<StringRef> rest = reader.take(headerNumbers * sizeof(int32_t) - reader.offset(), "header");
  if (!rest)
    return rest.takeError();
  return count;
}

Expected<LlmcTokenizer> readLlmcTokenizer(StringRef path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  ByteReader reader(path, file->bytes());
  LlmcTokenizer tokenizer;
  Expected<int32_t> count = readHeader(reader, tokenizer.endOfText);
  if (!count)
    return count.takeError();
  if (Error error = reader.claim(*count, 1, "tokens"))
    return error;
  for (int32_t id = 0; id < *count; ++id) {
    Expected<uint8_t> length = reader.read<uint8_t>("token " + Twine(id));
    if (!length)
      return length.takeError();
    Expected<StringRef> bytes = reader.take(*length, "token " + Twine(id));
    if (!bytes)
      return bytes.takeError();
    tokenizer.tokens.push_back(bytes->str());
  }
  if (reader.offset() != file->bytes().size())
    return makeFileError(path, "byte " + Twine(reader.offset()) +
                                   ": expected the file to end with the last token, got " +
                                   Twine(file->bytes().size() - reader.offset()) + " more bytes");
  return tokenizer;
}

Expected<std::string> writeLlmcTokenizer(const LlmcTokenizer &tokenizer) {
  std::array<int32_t, headerNumbers> header{llmcTokenizerMagic, 2, static_cast<int32_t>(tokenizer.tokens.size()),
                                            tokenizer.endOfText};
  std::string text(reinterpret_cast<const char *>(header.data()), sizeof header);
  for (const auto &[id, token] : llvm::enumerate(tokenizer.tokens)) {
    if (token.size() > 255)
      return makeError("token " + Twine(id) + ": expected at most 255 bytes, as llm.c's format holds, got " +
                       Twine(token.size()));
    text += static_cast<char>(token.size());
    text += token;
  }
  return text;
}

} // namespace kiln
