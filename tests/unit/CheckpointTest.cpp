#include "TestSupport.h"

#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Safetensors.h"

#include <cstring>

namespace kiln {
namespace {

/// The bytes of a safetensors file; `data` is the buffer after the header.
std::string fileOf(StringRef header, StringRef data) {
  std::string bytes(8, '\0');
  uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header.str() + data.str();
}

/// An entry `"name":{...}` of a header.
std::string entry(StringRef name, StringRef dtype, StringRef shape, StringRef offsets) {
  return formatv(R"("{0}":{{"dtype":"{1}","shape":{2},"data_offsets":{3}})", name, dtype, shape, offsets);
}

class SafetensorsTest : public testing::Test {
protected:
  std::string errorOf(StringRef contents) {
    std::string path = directory.write("model.safetensors", contents);
    return directory.relative(messageOf(SafetensorsFile::open(path)));
  }
  std::string headerError(StringRef header, StringRef data = "") { return errorOf(fileOf(header, data)); }
  std::string entryError(StringRef dtype, StringRef shape, StringRef offsets, size_t dataSize = 8) {
    return headerError("{" + entry("x", dtype, shape, offsets) + "}", std::string(dataSize, 'd'));
  }

  TemporaryDirectory directory;
};

TEST_F(SafetensorsTest, GoodFile) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "BF16", "[2,1]", "[4,8]") + "," +
                       entry("a", "F16", "[2]", "[0,4]") + "," + entry("empty", "F32", "[0,7]", "[8,8]") + "," +
                       entry("scalar", "F32", "[]", "[8,12]") + "," + entry("ids", "I64", "[1]", "[12,20]") + "," +
                       entry("nibbles", "F4", "[4]", "[20,22]") + "}   ";
  std::string path = directory.write("m.safetensors", fileOf(header, "abcdefghijklmnopqrstuv"));
  TensorView view;
  {
    auto file = unwrap(SafetensorsFile::open(path));
    EXPECT_EQ(file->tensors().size(), 6u);
    EXPECT_EQ(messageOf(file->tensor("ids")),
              path + ": error: tensor 'ids': expected dtype F32, F16 or BF16, got I64\n");
    EXPECT_EQ(messageOf(file->tensor("c")), path + ": error: tensor 'c': expected it in this file, got none\n");
    EXPECT_TRUE(unwrap(file->tensor("empty")).bytes.empty());
    EXPECT_EQ(unwrap(file->tensor("scalar")).bytes.size(), 4u);
    view = unwrap(file->tensor("b"));
  }
  // The view keeps the file mapped.
  EXPECT_EQ(view.dtype, DType::BF16);
  EXPECT_EQ(view.shape, (TensorShape{2, 1}));
  EXPECT_EQ(StringRef(reinterpret_cast<const char *>(view.bytes.data()), view.bytes.size()), "efgh");
}

TEST_F(SafetensorsTest, EmptyHeaderObjectIsAFileWithoutTensors) {
  EXPECT_EQ(headerError("{}"), "");
  EXPECT_EQ(headerError("{}", "x"), "model.safetensors: error: expected the file to end with the last tensor, at "
                                    "byte 0 of its data, got 1 bytes\n");
}

TEST_F(SafetensorsTest, BadFraming) {
  EXPECT_EQ(messageOf(SafetensorsFile::open("/nowhere")), "/nowhere: error: cannot read: No such file or directory\n");
  EXPECT_EQ(messageOf(SafetensorsFile::open("/")), "/: error: cannot read: is a directory\n");
  EXPECT_EQ(errorOf(""), "model.safetensors: error: expected a safetensors file of at least 8 bytes, got 0\n");
  EXPECT_EQ(errorOf(StringRef("\5\0\0\0\0\0\0\0{}", 10)),
            "model.safetensors: error: expected a header within the file's 10 bytes, got 5; the file may be "
            "truncated\n");
  EXPECT_EQ(errorOf("\xff\xff\xff\xff\xff\xff\xff\xff{}"),
            "model.safetensors: error: expected a header of at most 100000000 bytes, got 18446744073709551615; "
            "this may not be a safetensors file\n");
  EXPECT_EQ(headerError(""), "model.safetensors: error: header: expected a JSON object\n");
  EXPECT_EQ(headerError("[]"), "model.safetensors: error: header: expected a JSON object\n");
  EXPECT_TRUE(StringRef(headerError("{\"a\":")).starts_with("model.safetensors: error: header, line 1, column "));
  EXPECT_EQ(headerError("{\"a\":1}"), "model.safetensors: error: header: expected 'a' to be an object\n");
}

TEST_F(SafetensorsTest, DuplicateKeys) {
  std::string x = entry("x", "F32", "[2]", "[0,8]");
  EXPECT_EQ(headerError("{" + x + "," + x + "}", "12345678"),
            "model.safetensors: error: header: expected each key once, got 'x' twice\n");
  EXPECT_EQ(headerError(R"({"x":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", "12345678"),
            "model.safetensors: error: tensor 'x': expected each key once, got 'shape' twice\n");
  EXPECT_EQ(headerError(R"({"__metadata__":{"a":"1","a":"1"}})"),
            "model.safetensors: error: __metadata__: expected each key once, got 'a' twice\n");
  EXPECT_EQ(headerError(R"({"__metadata__":{"a":1}})"),
            "model.safetensors: error: __metadata__: expected 'a' to be a string\n");
}

TEST_F(SafetensorsTest, BadEntries) {
  StringRef start = "model.safetensors: error: tensor 'x': ";
  EXPECT_EQ(entryError("F31", "[2]", "[0,8]"), (start + "expected a known dtype, got 'F31'\n").str());
  EXPECT_EQ(headerError(R"({"x":{}})"), (start + "expected a known dtype, got none\n").str());
  for (StringRef shape : {"2", "[-1]", "[1.5]", "[\"2\"]", "[9223372036854775808]", "null"})
    EXPECT_EQ(entryError("F32", shape, "[0,8]"),
              (start + "expected 'shape' to be an array of non-negative integers\n").str());
  for (StringRef offsets : {"8", "[8]", "[0,8,8]", "[-8,0]", "[0,null]"})
    EXPECT_EQ(entryError("F32", "[2]", offsets),
              (start + "expected 'data_offsets' to be two non-negative integers\n").str());
  EXPECT_EQ(entryError("F32", "[2]", "[8,0]"),
            (start + "expected data_offsets that do not decrease, got [8,0]\n").str());
  EXPECT_EQ(entryError("F32", "[3]", "[0,8]"), (start + "expected 12 bytes for F32[3], got 8\n").str());
  EXPECT_EQ(entryError("F4", "[3]", "[0,1]"), (start + "expected whole bytes, got 12 bits\n").str());
  EXPECT_EQ(entryError("F32", "[4294967296,4294967296]", "[0,8]"),
            (start + "expected a shape whose size fits in 63 bits, got [4294967296,4294967296]\n").str());
  EXPECT_EQ(entryError("F64", "[1152921504606846976]", "[0,8]"),
            (start + "expected a shape whose size fits in 63 bits, got [1152921504606846976]\n").str());
}

TEST_F(SafetensorsTest, TheBufferIsTiled) {
  auto layoutError = [&](StringRef first, StringRef second, size_t size) {
    return headerError("{" + entry("x", "U8", "[4]", first) + "," + entry("y", "U8", "[4]", second) + "}",
                       std::string(size, 'd'));
  };
  EXPECT_EQ(layoutError("[4,8]", "[0,4]", 8), "");
  EXPECT_EQ(layoutError("[0,4]", "[5,9]", 9), "model.safetensors: error: tensor 'y': expected its data to begin at "
                                              "byte 4, got 5, which leaves a hole\n");
  EXPECT_EQ(layoutError("[3,7]", "[0,4]", 7), "model.safetensors: error: tensor 'x': expected its data to begin at "
                                              "byte 4, got 3, which overlaps another tensor\n");
  EXPECT_EQ(layoutError("[0,4]", "[4,8]", 7), "model.safetensors: error: tensor 'y': expected its data to end within "
                                              "the file's 7 bytes of data, got 8; the file may be truncated\n");
  EXPECT_EQ(layoutError("[0,4]", "[4,8]", 9), "model.safetensors: error: expected the file to end with the last "
                                              "tensor, at byte 8 of its data, got 9 bytes\n");
}

TEST_F(SafetensorsTest, EveryTruncationIsAnError) {
  std::string whole = fileOf("{" + entry("x", "F32", "[2]", "[0,8]") + "}", "12345678");
  EXPECT_EQ(errorOf(whole), "");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(errorOf(StringRef(whole).take_front(size)), "") << size;
}

//===----------------------------------------------------------------------===//
// Directories
//===----------------------------------------------------------------------===//

TEST(CheckpointTest, TheEmbeddedModel) {
  auto checkpoint = unwrap(Checkpoint::open(sourcePath("graphs/shakespeare-5m")));
  EXPECT_EQ(checkpoint->names().size(), 4u + 6 * 12);
  EXPECT_TRUE(checkpoint->has("h.5.attn.c_attn.bias"));
  EXPECT_FALSE(checkpoint->has("lm_head.weight"));
  TensorView view = unwrap(checkpoint->tensor("wte.weight", {1009, 256}));
  EXPECT_EQ(view.dtype, DType::BF16);
  EXPECT_EQ(view.bytes.size(), 1009u * 256 * 2);

  std::string file = sourcePath("graphs/shakespeare-5m/model.safetensors");
  EXPECT_EQ(messageOf(checkpoint->tensor("wte.weight", {1024, 256})),
            file + ": error: tensor 'transformer.wte.weight': expected shape [1024,256], got [1009,256]\n");
  EXPECT_EQ(messageOf(checkpoint->tensor("h.6.ln_1.weight", {256})),
            file + ": error: tensor 'h.6.ln_1.weight': expected one of shape [256], got none\n");
}

class CheckpointDirectoryTest : public testing::Test {
protected:
  std::string openError() { return directory.relative(messageOf(Checkpoint::open(directory.str()))); }

  /// Two shards of one tensor each, and an index with the given `weight_map`.
  void writeShards(StringRef weightMap) {
    directory.write("1.safetensors", fileOf("{" + entry("wte.weight", "F16", "[1]", "[0,2]") + "}", "ab"));
    directory.write("2.safetensors", fileOf("{" + entry("ln_f.bias", "F16", "[1]", "[0,2]") + "}", "cd"));
    directory.write("model.safetensors.index.json", ("{\"metadata\": {}, \"weight_map\":\n" + weightMap + "}").str());
  }

  TemporaryDirectory directory;
};

TEST_F(CheckpointDirectoryTest, MasksAreLeftOutButBiasesAreNot) {
  std::string header = "{" + entry("h.0.attn.bias", "U8", "[1,1,1,1]", "[0,1]") + "," +
                       entry("h.0.attn.masked_bias", "U8", "[]", "[1,2]") + "," +
                       entry("h.0.attn.c_attn.bias", "F16", "[1]", "[2,4]") + "}";
  directory.write("model.safetensors", fileOf(header, "abcd"));
  EXPECT_EQ(unwrap(Checkpoint::open(directory.str()))->names(), std::vector<std::string>{"h.0.attn.c_attn.bias"});
}

TEST_F(CheckpointDirectoryTest, ANameWithAndWithoutPrefixIsAnError) {
  std::string header = "{" + entry("wte.weight", "F16", "[1]", "[0,2]") + "," +
                       entry("transformer.wte.weight", "F16", "[1]", "[2,4]") + "}";
  directory.write("model.safetensors", fileOf(header, "abcd"));
  EXPECT_EQ(openError(), "model.safetensors: error: tensor 'wte.weight': expected it once, got it with and without "
                         "the prefix 'transformer.'\n");
}

TEST_F(CheckpointDirectoryTest, Shards) {
  writeShards(R"({"wte.weight": "1.safetensors", "ln_f.bias": "2.safetensors"})");
  auto checkpoint = unwrap(Checkpoint::open(directory.str()));
  EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"ln_f.bias", "wte.weight"}));
  EXPECT_EQ(unwrap(checkpoint->tensor("ln_f.bias", {1})).bytes[1], 'd');
  EXPECT_EQ(directory.relative(messageOf(checkpoint->tensor("wpe.weight", {4, 2}))),
            "model.safetensors.index.json: error: tensor 'wpe.weight': expected one of shape [4,2], got none\n");
  EXPECT_EQ(directory.relative(messageOf(checkpoint->tensor("ln_f.bias", {2}))),
            "2.safetensors: error: tensor 'ln_f.bias': expected shape [2], got [1]\n");
}

TEST_F(CheckpointDirectoryTest, TensorsThatTheModelDoesNotHave) {
  auto errorWith = [&](StringRef name, StringRef dtype, StringRef data) {
    std::string header = "{" + entry("transformer.wte.weight", "F16", "[1]", "[0,2]") + "," +
                         entry("transformer.h.0.attn.bias", "U8", "[1]", "[2,3]") + "," +
                         entry(name, dtype, "[1]", formatv("[3,{0}]", 3 + data.size()).str()) + "}";
    directory.write("model.safetensors", fileOf(header, ("abm" + data).str()));
    StringSet<> used = {"wte.weight"};
    return directory.relative(messageOf(unwrap(Checkpoint::open(directory.str()))->expectOnly(used)));
  };
  StringRef tied =
      "model.safetensors: error: tensor 'lm_head.weight': expected the bytes of 'wte.weight', to which the "
      "model ties it, got others; a model that uses it has tie_word_embeddings false\n";
  StringRef start = "model.safetensors: error: tensor '", unused = "': expected tensors of the model, got one that it "
                                                                   "does not have";
  EXPECT_EQ(errorWith("lm_head.weight", "F16", "ab"), "");
  EXPECT_EQ(errorWith("lm_head.weight", "F16", "ac"), tied);
  EXPECT_EQ(errorWith("lm_head.weight", "BF16", "ab"), tied);
  EXPECT_EQ(errorWith("lm_head.weight", "F32", "abab"), tied);
  EXPECT_EQ(errorWith("score.weight", "F16", "ab"), (start + "score.weight" + unused + "\n").str());
  EXPECT_EQ(
      errorWith("transformer.h.1.ln_1.bias", "F16", "ab"),
      (start + "transformer.h.1.ln_1.bias" + unused + "; the model may have fewer layers (n_layer) than this\n").str());
}

TEST_F(CheckpointDirectoryTest, BadShards) {
  EXPECT_EQ(messageOf(Checkpoint::open("/nowhere")),
            "/nowhere: error: expected model.safetensors or model.safetensors.index.json, got neither\n");
  const std::pair<StringRef, StringRef> cases[] = {
      {R"({"wte.weight": "2.safetensors"})", "model.safetensors.index.json:2:16: error: tensor 'wte.weight': "
                                             "expected it in 2.safetensors, got none there\n"},
      {R"({"wte.weight": "3.safetensors"})", "3.safetensors: error: cannot read: No such file or directory\n"},
      {R"({"wte.weight": "../1.safetensors"})",
       "model.safetensors.index.json:2:16: error: tensor 'wte.weight': expected the name of a file beside "
       "the index\n"},
      {R"({"wte.weight": 1})", "model.safetensors.index.json:2:16: error: tensor 'wte.weight': expected the "
                               "name of a file beside the index\n"},
      {R"({"a": "1.safetensors", "a": "1.safetensors"})",
       "model.safetensors.index.json:2:24: error: tensor 'a': expected it once, got it twice\n"},
      {"[]", "model.safetensors.index.json:2:1: error: weight_map: expected an object\n"},
  };
  for (const auto &[weightMap, message] : cases) {
    writeShards(weightMap);
    EXPECT_EQ(openError(), message);
  }
  directory.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(openError(), "model.safetensors.index.json: error: expected an object 'weight_map', got none\n");
}

} // namespace
} // namespace kiln
