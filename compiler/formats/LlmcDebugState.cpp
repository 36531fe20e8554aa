#include "formats/LlmcDebugState.h"

#include "formats/ByteReader.h"
#include "support/model/WeightRecipe.h"

namespace kiln {

static constexpr int32_t debugStateMagic = 20240327, debugStateVersion = 2;
static constexpr uint64_t headerBytes = 1024;

class DebugStateParser {
public:
  explicit DebugStateParser(LlmcDebugState &state) : state(state), reader(state.file.path(), state.file.bytes()) {}

  Error parse();

private:
  Error readHeader();
  Expected<int32_t> readSize(StringRef name);
  Error readIds(StringRef name, std::vector<int32_t> &ids);

  LlmcDebugState &state;
  ByteReader reader;
};

Expected<int32_t> DebugStateParser::readSize(StringRef name) {
  Expected<int32_t> size = reader.read<int32_t>(name);
  if (size && *size < 1)
    return reader.fail(name + ": expected a number above 0, got " + Twine(*size));
  return size;
}

Error DebugStateParser::readHeader() {
  for (auto [name, wanted] : {std::pair("magic number", debugStateMagic), {"version", debugStateVersion}}) {
    Expected<int32_t> number = reader.read<int32_t>(name);
    if (!number)
      return number.takeError();
    if (*number != wanted)
      return reader.fail(Twine(name) + ": expected " + Twine(wanted) + " of llm.c's debug states, got " +
                         Twine(*number));
  }
  if (Error error = readSize("number of sequences").moveInto(state.sequences))
    return error;
  if (Error error = readSize("number of tokens").moveInto(state.tokens))
    return error;
  Expected<StringRef> rest = reader.take(headerBytes - reader.offset(), "header");
  return rest ? Error::success() : rest.takeError();
}

Error DebugStateParser::readIds(StringRef name, std::vector<int32_t> &ids) {
  auto count = static_cast<uint64_t>(state.sequences * state.tokens);
  if (Error error = reader.claim(count, sizeof(int32_t), name))
    return error;
  ids.resize(count);
  for (int32_t &id : ids) {
    if (Error error = reader.read<int32_t>(name).moveInto(id))
      return error;
    if (id < 0 || id >= state.vocabulary)
      return reader.fail(name + ": expected an id from 0 to " + Twine(state.vocabulary - 1) + ", got " + Twine(id));
  }
  return Error::success();
}

Error DebugStateParser::parse() {
  if (Error error = readHeader())
    return error;
  if (Error error = readIds("inputs", state.inputIds))
    return error;
  if (Error error = readIds("targets", state.targetIds))
    return error;
  // The product of the first two fits, since the file has so many ids.
  std::optional<int64_t> count = elementCount({state.sequences * state.tokens, state.vocabulary});
  if (Error error = reader.claim(count.value_or(INT64_MAX), sizeof(float), "logits"))
    return error;
  if (Error error = reader.take(*count * sizeof(float), "logits").moveInto(state.logitBytes))
    return error;
  return reader.read<float>("loss").moveInto(state.meanLoss);
}

Expected<LlmcDebugState> LlmcDebugState::open(StringRef path, int64_t vocabulary) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  LlmcDebugState state(std::move(*file));
  state.vocabulary = vocabulary;
  if (Error error = DebugStateParser(state).parse())
    return error;
  return state;
}

std::vector<float> LlmcDebugState::logits(int64_t sequence, int64_t token) const {
  std::vector<float> row(vocabulary);
  uint64_t bytes = row.size() * sizeof(float);
  std::memcpy(row.data(), logitBytes.data() + (sequence * tokens + token) * bytes, bytes);
  return row;
}

} // namespace kiln
