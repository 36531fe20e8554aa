#include "formats/LlmcTokens.h"

#include "formats/ByteReader.h"
#include "support/Diagnostic.h"

namespace kiln {

std::optional<int32_t> firstInteger(StringRef bytes) {
  int32_t value;
  if (bytes.size() < sizeof value)
    return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Reads llm.c's header and checks that the tokens end where the file does.
static Error readTokensHeader(ByteReader &reader, uint64_t size) {
  constexpr uint64_t headerBytes = 1024;
  for (auto [name, wanted] : {std::pair("magic number", llmcTokensMagic), {"version", 1}}) {
    Expected<int32_t> number = reader.read<int32_t>(name);
    if (!number)
      return number.takeError();
    if (*number != wanted)
      return reader.fail(Twine(name) + ": expected " + Twine(wanted) + " of llm.c's tokens, got " + Twine(*number));
  }
  Expected<int32_t> count = reader.read<int32_t>("number of tokens");
  if (!count)
    return count.takeError();
  uint64_t wanted = size < headerBytes ? 0 : (size - headerBytes) / sizeof(uint16_t);
  if (size < headerBytes || *count < 0 || static_cast<uint64_t>(*count) != wanted || size % sizeof(uint16_t) != 0)
    return reader.fail("number of tokens: expected a file of 1024 + 2 * " + Twine(*count) + " bytes, got " +
                       Twine(size) + "; it may be truncated");
  return reader.take(headerBytes - reader.offset(), "header").takeError();
}

Expected<std::vector<int32_t>> readTokenFile(StringRef path, StringRef bytes, int64_t vocabulary) {
  ByteReader reader(path, ArrayRef(bytes.bytes_begin(), bytes.bytes_end()));
  std::optional<int32_t> magic = firstInteger(bytes);
  if (magic == llmcWideTokensMagic)
    return reader.fail("magic number: expected GPT-2's tokens of 16 bits, " + Twine(llmcTokensMagic) + ", got " +
                       Twine(*magic) + " of llm.c's tokens of 32 bits");
  if (magic == llmcTokensMagic)
    if (Error error = readTokensHeader(reader, bytes.size()))
      return error;
  uint64_t begin = reader.offset(), left = bytes.size() - begin;
  if (left % sizeof(uint16_t) != 0)
    return makeFileError(path, "expected tokens of 2 bytes, got " + Twine(left) +
                                   " bytes; the file may be truncated, or no file of tokens");
  std::vector<int32_t> ids(left / sizeof(uint16_t));
  for (auto [index, id] : llvm::enumerate(ids)) {
    uint64_t at = begin + index * sizeof(uint16_t);
    uint16_t read;
    std::memcpy(&read, bytes.data() + at, sizeof read);
    if (read >= vocabulary)
      return makeFileError(path, "byte " + Twine(at) + ": token: expected an id from 0 to " + Twine(vocabulary - 1) +
                                     ", got " + Twine(read));
    id = read;
  }
  return ids;
}

} // namespace kiln
