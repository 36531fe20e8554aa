#include "formats/LlmcModel.h"

#include "formats/ByteReader.h"
#include "formats/LlmcTokenizer.h"
#include "formats/ModelConfigText.h"
#include "support/Diagnostic.h"
#include "support/model/WeightRecipe.h"

namespace kiln {

std::vector<LlmcParameter> llmcParameters(const LlmcSizes &sizes) {
  int64_t channels = sizes.channels;
  return {{"wte", "wte.weight", false, {sizes.paddedVocabulary, channels}},
          {"wpe", "wpe.weight", false, {sizes.positions, channels}},
          {"ln1w", "ln_1.weight", true, {channels}},
          {"ln1b", "ln_1.bias", true, {channels}},
          {"qkvw", "attn.c_attn.weight", true, {3 * channels, channels}},
          {"qkvb", "attn.c_attn.bias", true, {3 * channels}},
          {"attprojw", "attn.c_proj.weight", true, {channels, channels}},
          {"attprojb", "attn.c_proj.bias", true, {channels}},
          {"ln2w", "ln_2.weight", true, {channels}},
          {"ln2b", "ln_2.bias", true, {channels}},
          {"fcw", "mlp.c_fc.weight", true, {4 * channels, channels}},
          {"fcb", "mlp.c_fc.bias", true, {4 * channels}},
          {"fcprojw", "mlp.c_proj.weight", true, {channels, 4 * channels}},
          {"fcprojb", "mlp.c_proj.bias", true, {channels}},
          {"lnfw", "ln_f.weight", false, {channels}},
          {"lnfb", "ln_f.bias", false, {channels}}};
}

bool isLlmcModel(ArrayRef<uint8_t> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof magic)
    std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == llmcMagic;
}

namespace {
class LlmcParser {
public:
  explicit LlmcParser(const MappedFile &file) : file(file), reader(file.path(), file.bytes()) {}

  Error parse(ModelFile &model);

private:
  Error readHeader();
  Error checkSize() const;
  void addTensors(ModelFile &model) const;
  Error describe(ModelFile &model) const;

  const MappedFile &file;
  ByteReader reader;
  StoredType type = StoredType::F32;
  LlmcSizes sizes{};
};
} // namespace

Error LlmcParser::readHeader() {
  Expected<int32_t> magic = reader.read<int32_t>("magic number");
  if (!magic)
    return magic.takeError();
  if (*magic != llmcMagic)
    return reader.fail("magic number: expected " + Twine(llmcMagic) + ", got " + Twine(*magic));
  Expected<int32_t> version = reader.read<int32_t>("version");
  if (!version)
    return version.takeError();
  if (*version != llmcVersionF32 && *version != llmcVersionBF16)
    return reader.fail("version: expected 3 (fp32) or 5 (bf16), got " + Twine(*version) +
                       "; write the file again with a newer train_gpt2.py of llm.c");
  type = *version == llmcVersionF32 ? StoredType::F32 : StoredType::BF16;
  const std::pair<StringRef, int64_t &> fields[] = {{"most tokens of a sequence", sizes.positions},
                                                    {"size of the vocabulary", sizes.vocabulary},
                                                    {"number of layers", sizes.layers},
                                                    {"number of heads", sizes.heads},
                                                    {"number of channels", sizes.channels},
                                                    {"padded size of the vocabulary", sizes.paddedVocabulary}};
  for (const auto &[name, size] : fields) {
    Expected<int32_t> value = reader.read<int32_t>(name);
    if (!value)
      return value.takeError();
    if (*value < 1)
      return reader.fail(name + ": expected a number above 0, got " + Twine(*value));
    size = *value;
  }
  if (sizes.paddedVocabulary < sizes.vocabulary)
    return reader.fail("padded size of the vocabulary: expected at least its size of " + Twine(sizes.vocabulary) +
                       ", got " + Twine(sizes.paddedVocabulary));
  return Error::success();
}

/// Checks that the file has the size that its header says, before anything is made of its counts.
Error LlmcParser::checkSize() const {
  int64_t all = llmcHeaderBytes;
  bool fits = true;
  for (const LlmcParameter &parameter : llmcParameters(sizes)) {
    SmallVector<int64_t, 3> shape{parameter.isOfLayer ? sizes.layers : 1};
    shape.append(parameter.shape);
    std::optional<int64_t> elements = elementCount(shape), bytes;
    if (elements)
      bytes = storedBytes(type, *elements);
    fits = fits && bytes && !__builtin_add_overflow(all, *bytes, &all);
  }
  if (fits && static_cast<uint64_t>(all) == file.bytes().size())
    return Error::success();
  std::string header = formatv("{0} layers of {1} channels, {2} tokens and a vocabulary padded to {3}", sizes.layers,
                               sizes.channels, sizes.positions, sizes.paddedVocabulary)
                           .str();
  return makeFileError(file.path(), "byte 8: expected a file of " +
                                        (fits ? Twine(all) + " bytes" : Twine("more than 2^63 bytes")) + ", for " +
                                        header + ", got one of " + Twine(file.bytes().size()) +
                                        "; it may be damaged or truncated");
}

void LlmcParser::addTensors(ModelFile &model) const {
  ArrayRef<uint8_t> rest = file.bytes().drop_front(llmcHeaderBytes);
  auto add = [&](const std::string &source, std::string name, const LlmcParameter &parameter) {
    int64_t bytes = *storedBytes(type, *elementCount(parameter.shape));
    StoredTensor tensor{.name = std::move(name),
                        .type = type,
                        .shape = parameter.shape,
                        .isTransposed = isStoredTransposed(source),
                        .bytes = rest.take_front(bytes)};
    rest = rest.drop_front(bytes);
    if (tensor.isTransposed)
      std::swap(tensor.shape[0], tensor.shape[1]);
    if (source == "wte.weight") { // without the rows of padding, which are its last
      tensor.shape[0] = sizes.vocabulary;
      tensor.bytes = tensor.bytes.take_front(*storedBytes(type, *elementCount(tensor.shape)));
    }
    model.tensors.emplace(source, std::move(tensor));
  };
  for (const LlmcParameter &parameter : llmcParameters(sizes)) {
    if (!parameter.isOfLayer)
      add(parameter.source.str(), parameter.name.str(), parameter);
    for (int64_t layer = 0; parameter.isOfLayer && layer < sizes.layers; ++layer)
      add(formatv("h.{0}.{1}", layer, parameter.source).str(), formatv("{0}[{1}]", parameter.name, layer).str(),
          parameter);
  }
}

Error LlmcParser::describe(ModelFile &model) const {
  ModelDescription description{.vocabulary = sizes.vocabulary,
                               .positions = sizes.positions,
                               .channels = sizes.channels,
                               .inner = 4 * sizes.channels,
                               .layers = sizes.layers,
                               .heads = sizes.heads};
  // The model has no token of its own for ends of texts: the tokenizer's file says it, or it is GPT-2's.
  constexpr int64_t gpt2EndOfText = 50256;
  if (std::string tokenizer = llmcTokenizerBeside(file.path()); isLlmcTokenizer(tokenizer)) {
    Expected<LlmcTokenizer> read = readLlmcTokenizer(tokenizer);
    if (!read)
      return read.takeError();
    description.endToken = read->endOfText;
  } else if (sizes.vocabulary > gpt2EndOfText) {
    description.endToken = gpt2EndOfText;
  }
  description.beginToken = description.endToken;
  model.config = configText(description);
  return Error::success();
}

Error LlmcParser::parse(ModelFile &model) {
  if (Error error = readHeader())
    return error;
  if (Error error = checkSize())
    return error;
  model.path = file.path();
  model.format = "llm.c, version " + (type == StoredType::F32 ? std::string("3, fp32") : std::string("5, bf16"));
  addTensors(model);
  return describe(model);
}

Expected<std::shared_ptr<const ModelFile>> openLlmcModel(MappedFile mapping) {
  auto file = std::make_shared<MappedFile>(std::move(mapping));
  auto model = std::make_shared<ModelFile>();
  if (Error error = LlmcParser(*file).parse(*model))
    return error;
  model->mapping = file;
  return model;
}

} // namespace kiln
