#include "formats/LlmcChoices.h"

#include "formats/ByteReader.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

class ChoicesReader {
public:
  ChoicesReader(StringRef path, StringRef bytes, int64_t vocabulary)
      : path(path), reader(path, ArrayRef(bytes.bytes_begin(), bytes.bytes_end())), size(bytes.size()),
        vocabulary(vocabulary) {}

  Expected<std::vector<ChoiceExample>> read();

private:
  Error readHeader();
  /// The next number, which must be from `least` to `most`.
  template <class Int> Expected<Int> number(const Twine &what, int64_t least, int64_t most);
  Error readExample(size_t index, ChoiceExample &example);
  Error readTokens(const Twine &what, std::vector<int32_t> &ids);

  StringRef path;
  ByteReader reader;
  uint64_t size;
  int64_t vocabulary;
  int64_t exampleCount = 0, mostBytes = 0;
};

template <class Int> Expected<Int> ChoicesReader::number(const Twine &what, int64_t least, int64_t most) {
  Expected<Int> value = reader.read<Int>(what);
  if (!value || (*value >= least && *value <= most))
    return value;
  std::string wanted = least == most ? std::to_string(least) : formatv("a number from {0} to {1}", least, most).str();
  return reader.fail(what + ": expected " + wanted + ", got " + Twine(*value));
}

Error ChoicesReader::readHeader() {
  constexpr uint64_t headerBytes = 1024;
  constexpr int64_t leastExampleBytes = 2 * 11; // with two endings, and a token in each of the three texts
  if (Error error =
          number<int32_t>("magic number of llm.c's multiple-choice questions", llmcChoicesMagic, llmcChoicesMagic)
              .takeError())
    return error;
  if (Error error = number<int32_t>("version", 1, 1).takeError())
    return error;
  if (Error error = number<int32_t>("number of examples", 1, UINT16_MAX).moveInto(exampleCount))
    return error;
  uint64_t left = size < headerBytes ? 0 : size - headerBytes;
  if (static_cast<uint64_t>(exampleCount) > left / leastExampleBytes)
    return reader.fail("number of examples: expected at most what " + Twine(left) +
                       " bytes behind the header can hold, got " + Twine(exampleCount) + "; the file may be truncated");
  if (Error error = number<int32_t>("bytes of the longest example", leastExampleBytes, UINT16_MAX).moveInto(mostBytes))
    return error;
  return reader.take(headerBytes - reader.offset(), "header").takeError();
}

Error ChoicesReader::readTokens(const Twine &what, std::vector<int32_t> &ids) {
  Expected<uint16_t> count = number<uint16_t>(what + ", number of tokens", 1, UINT16_MAX);
  if (!count)
    return count.takeError();
  if (Error error = reader.claim(*count, sizeof(uint16_t), what))
    return error;
  ids.resize(*count);
  for (int32_t &id : ids)
    if (Error error = number<uint16_t>(what + ", token", 0, vocabulary - 1).moveInto(id))
      return error;
  return Error::success();
}

Error ChoicesReader::readExample(size_t index, ChoiceExample &example) {
  uint64_t begin = reader.offset();
  auto at = static_cast<int64_t>(index);
  std::string name = "example " + std::to_string(index);
  constexpr int64_t sentinel = UINT16_MAX;
  int64_t bytes = 0, label = 0, endings = 0;
  if (Error error = number<uint16_t>(name + ", begin", sentinel, sentinel).takeError())
    return error;
  if (Error error = number<uint16_t>(name + ", bytes", 0, mostBytes).moveInto(bytes))
    return error;
  if (Error error = number<uint16_t>(name + ", index", at, at).takeError())
    return error;
  if (Error error = number<uint16_t>(name + ", label", 0, UINT16_MAX).moveInto(label))
    return error;
  if (Error error = number<uint16_t>(name + ", number of endings", 2, UINT16_MAX).moveInto(endings))
    return error;
  if (label >= endings)
    return reader.fail(name + ": expected a label below the number of endings, " + Twine(endings) + ", got " +
                       Twine(label));
  example.label = static_cast<size_t>(label);
  if (Error error = readTokens(name + ", context", example.context))
    return error;
  for (int64_t i = 0; i < endings; ++i)
    if (Error error = readTokens(name + ", ending " + Twine(i), example.endings.emplace_back()))
      return error;
  uint64_t got = reader.offset() - begin;
  return got == static_cast<uint64_t>(bytes)
             ? Error::success()
             : reader.fail(name + ": expected " + Twine(bytes) + " bytes, got " + Twine(got));
}

Expected<std::vector<ChoiceExample>> ChoicesReader::read() {
  if (Error error = readHeader())
    return error;
  std::vector<ChoiceExample> examples(exampleCount);
  for (auto [index, example] : llvm::enumerate(examples))
    if (Error error = readExample(index, example))
      return error;
  if (reader.offset() < size)
    return makeFileError(path, "byte " + Twine(reader.offset()) + ": expected the end of the file, got " +
                                   Twine(size - reader.offset()) + " more bytes");
  return examples;
}

} // namespace

Expected<std::vector<ChoiceExample>> readLlmcChoices(StringRef path, StringRef bytes, int64_t vocabulary) {
  return ChoicesReader(path, bytes, vocabulary).read();
}

} // namespace kiln
