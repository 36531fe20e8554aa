#include "Seeds.h"

#include "formats/GgufWriter.h"
#include "formats/LlmcChoices.h"
#include "formats/LlmcModel.h"
#include "formats/LlmcTokenizer.h"
#include "formats/LlmcTokens.h"
#include "runtime/text/ByteAlphabet.h"
#include "support/model/WeightRecipe.h"

namespace kiln {

namespace {

constexpr LlmcSizes tinySizes = {
    .positions = 4, .vocabulary = 5, .layers = 1, .heads = 1, .channels = 8, .paddedVocabulary = 8};

std::string numbered(int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i)
    bytes += static_cast<char>(i * 37 + 11);
  return bytes;
}

std::string llmcModel(int32_t version) {
  std::array<int32_t, 256> header{llmcMagic, version, 4, 5, 1, 1, 8, 8};
  std::string bytes(reinterpret_cast<const char *>(header.data()), sizeof header);
  StoredType type = version == llmcVersionF32 ? StoredType::F32 : StoredType::BF16;
  for (const LlmcParameter &parameter : llmcParameters(tinySizes))
    bytes += numbered(*storedBytes(type, *elementCount(parameter.shape)));
  return bytes;
}

std::string llmcTokenizer() {
  LlmcTokenizer tokenizer;
  for (int byte = 0; byte < 256; ++byte)
    tokenizer.tokens.emplace_back(1, static_cast<char>(byte));
  for (StringRef token : {"to", "be", "tob", "tobe", "<|endoftext|>"})
    tokenizer.tokens.push_back(token.str());
  tokenizer.endOfText = 260;
  return cantFail(writeLlmcTokenizer(tokenizer));
}

void addModelKeys(GgufWriter &writer) {
  writer.add("general.architecture", StringRef("gpt2"));
  writer.add("gpt2.context_length", uint32_t(4));
  writer.add("gpt2.embedding_length", uint32_t(32));
  writer.add("gpt2.feed_forward_length", uint32_t(32));
  writer.add("gpt2.block_count", uint32_t(1));
  writer.add("gpt2.attention.head_count", uint32_t(1));
  writer.add("gpt2.attention.layer_norm_epsilon", 1e-5F);
}

void addVocabularyKeys(GgufWriter &writer) {
  std::vector<std::string> tokens, merges = {"a b", "ab a"};
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(spellByte(static_cast<uint8_t>(byte)));
  std::vector<int32_t> types(tokens.size(), 1);
  for (auto [token, type] : {std::pair("ab", 1), {"aba", 1}, {"<|endoftext|>", 3}, {"[PAD259]", 5}}) {
    tokens.emplace_back(token);
    types.push_back(type);
  }
  writer.add("tokenizer.ggml.model", StringRef("gpt2"));
  writer.add("tokenizer.ggml.pre", StringRef("gpt-2"));
  writer.add("tokenizer.ggml.tokens", ArrayRef<std::string>(tokens));
  writer.add("tokenizer.ggml.token_type", ArrayRef<int32_t>(types));
  writer.add("tokenizer.ggml.merges", ArrayRef<std::string>(merges));
  writer.add("tokenizer.ggml.add_bos_token", false);
}

/// A file with a few tensors, a matrix of each type.
std::string ggufModel() {
  GgufWriter writer;
  addModelKeys(writer);
  addVocabularyKeys(writer);
  std::string data;
  auto add = [&](StringRef name, StoredType type, ArrayRef<int64_t> shape) {
    writer.addTensor(name, type, shape);
    data += numbered(*storedBytes(type, *elementCount(shape)));
    data.resize(llvm::alignTo(data.size(), GgufWriter::alignment));
  };
  add("token_embd.weight", StoredType::Q8, {5, 32});
  add("position_embd.weight", StoredType::F32, {4, 32});
  add("output.weight", StoredType::F16, {5, 32});
  add("blk.0.attn_norm.weight", StoredType::F32, {32});
  add("blk.0.ffn_up.weight", StoredType::BF16, {3, 32});
  add("blk.0.ffn_down.weight", StoredType::Q8, {2, 32});
  return writer.header() + data;
}

std::string evalFile(std::array<int32_t, 256> header, ArrayRef<uint16_t> numbers) {
  return std::string(reinterpret_cast<const char *>(header.data()), sizeof header) +
         std::string(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(uint16_t));
}

void addSeedsOfEvalFiles(SeedWriter &seeds) {
  seeds.add("eval-data", "tokens", evalFile({llmcTokensMagic, 1, 3}, {5, 6, 7}));
  seeds.add("eval-data", "questions",
            evalFile({llmcChoicesMagic, 1, 2, 26},
                     {65535, 26, 0, 1, 2, 2, 1, 2, 1, 3, 2, 4, 5, 65535, 22, 1, 0, 2, 1, 1, 1, 3, 1, 4}));
  seeds.add("eval-data", "lines",
            "{\"ctx\": \"To\", \"endings\": [\"be\", \"go\"], \"label\": \"1\"}\n"
            "{\"ctx_a\": \"To\", \"ctx_b\": \"be\", \"endings\": [\"or\", \"not\"], "
            "\"label\": 0}\n");
  seeds.add("eval-data", "texts", "{\"text\": \"To be\"}\n\n{\"text\": \"\"}\n");
  seeds.addDictionary("eval-data", {"ctx", "ctx_a", "ctx_b", "endings", "label", "text"});
}

} // namespace

void addSeedsOfModelFiles(SeedWriter &seeds) {
  seeds.add("llmc", "fp32", llmcModel(llmcVersionF32));
  seeds.add("llmc", "bf16", llmcModel(llmcVersionBF16));
  seeds.add("llmc", "tokenizer", llmcTokenizer());
  seeds.add("gguf", "model", ggufModel());
  addSeedsOfEvalFiles(seeds);
  GgufWriter keys;
  addVocabularyKeys(keys);
  seeds.add("gguf", "vocabulary", keys.header());
  seeds.addDictionary("gguf", {"GGUF", "general.architecture", "general.alignment", "gpt2", "gpt2.block_count",
                               "gpt2.context_length", "gpt2.embedding_length", "gpt2.feed_forward_length",
                               "gpt2.attention.head_count", "gpt2.attention.layer_norm_epsilon",
                               "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges",
                               "tokenizer.ggml.add_bos_token", "kiln.widened_from_bf16", "token_embd.weight",
                               "output.weight", "blk.0.attn_qkv.weight", ".bias"});
}

} // namespace kiln
