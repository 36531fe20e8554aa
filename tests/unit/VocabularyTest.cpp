// Small vocabularies, well-formed and malformed.

#include "TestSupport.h"

#include "runtime/text/ByteAlphabet.h"
#include "runtime/text/Tokenizer.h"

namespace kiln {
namespace {

using Ids = std::vector<int32_t>;

/// Entries `"token": id` for the 256 bytes, one per line: byte b has id b and stands on line b + 2 of the file.
std::string byteEntries() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte)
    text += formatv("{0}: {1},\n", json::Value(spellByte(static_cast<uint8_t>(byte))), byte).str();
  return text;
}

class VocabularyTest : public testing::Test {
protected:
  /// Writes vocab.json with the bytes and the given tokens, and merges.txt.
  void write(StringRef moreTokens, StringRef merges) {
    directory.write("vocab.json", ("{\n" + byteEntries() + moreTokens + "}").str());
    directory.write("merges.txt", merges);
  }
  Tokenizer load() { return unwrap(Tokenizer::load(directory.str())); }
  std::string loadError() { return directory.relative(messageOf(Tokenizer::load(directory.str()))); }

  TemporaryDirectory directory;
};

TEST_F(VocabularyTest, MergesByRankThenFromTheLeft) {
  write("\"ab\": 256, \"bc\": 257, \"abc\": 258, \"aa\": 259", "#version: 0.2\nb c\na b\na bc\na a\n");
  Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.vocabSize(), 260);
  EXPECT_EQ(tokenizer.endOfText(), std::nullopt);
  EXPECT_EQ(tokenizer.encode("abc"), Ids{258}); // bc first, so that ab never forms
  EXPECT_EQ(tokenizer.encode("abab"), (Ids{256, 256}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Ids{259, 'a'}));
  EXPECT_EQ(tokenizer.encode("aaab"), (Ids{259, 256}));
  EXPECT_EQ(tokenizer.encode("cba"), (Ids{'c', 'b', 'a'}));
}

TEST_F(VocabularyTest, AMergedPairMayOutrankWhatIsLeftOfItsPass) {
  // Rank 0 needs a product of rank 1: 'lowest rank, leftmost first' joins it before the second 'aa'.
  write("\"aa\": 256, \"aaa\": 257", "aa a\na a\n");
  EXPECT_EQ(load().encode("aaaa"), (Ids{257, 'a'}));
}

TEST_F(VocabularyTest, AVeryLongPieceIsNotQuadratic) {
  // Quadratic time would take hours here; only the tests' overall limit checks this.
  std::string more = "\"aa\": 256, \"aaaa\": 257", text(1 << 20, 'a');
  write(more, "a a\naa aa\n");
  EXPECT_EQ(load().encode(text), Ids(1 << 18, 257));
}

TEST_F(VocabularyTest, OddFilesLoad) {
  directory.write("encoder.json", ("{" + byteEntries() + "\"<|endoftext|>\": 256}"));
  directory.write("vocab.bpe", "");
  Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.endOfText(), 256);
  EXPECT_EQ(tokenizer.encode("#<|endoftext|>", true), (Ids{'#', 256}));

  write("\"ab\": 256", "a b\r\n"); // vocab.json and merges.txt come first
  EXPECT_EQ(load().encode("ab"), Ids{256});
  directory.write("merges.txt", "a b");
  EXPECT_EQ(load().encode("ab"), Ids{256});
}

TEST_F(VocabularyTest, TheEndOfTextMayHaveAnyId) {
  std::string entries = "{\"<|endoftext|>\": 0";
  for (int byte = 0; byte < 256; ++byte)
    entries += formatv(", {0}: {1}", json::Value(spellByte(static_cast<uint8_t>(byte))), byte + 1).str();
  directory.write("vocab.json", entries + "}");
  directory.write("merges.txt", "");
  Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.endOfText(), 0);
  EXPECT_EQ(tokenizer.encode("A<|endoftext|>", true), (Ids{'A' + 1, 0}));
}

TEST_F(VocabularyTest, AddedTokensBesideAVocabulary) {
  write("\"ab\": 256", "a b\n");
  directory.write("added_tokens.json", R"({"<pad>": 257, "<pad><sep>": 258})");
  Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.vocabSize(), 259);
  EXPECT_EQ(tokenizer.encode("<pad><pad><sep>", true), (Ids{257, 258}));
  EXPECT_EQ(tokenizer.encode("<", true), Ids{'<'});
  EXPECT_EQ(unwrap(tokenizer.decode({258, 256})), "<pad><sep>ab");

  directory.write("added_tokens.json", R"({"<pad>": 258})");
  EXPECT_EQ(loadError(), "added_tokens.json:1:2: error: '<pad>': expected an id in 0..257, since there are 258 "
                         "tokens, got 258\n");
}

TEST_F(VocabularyTest, ATokenOfAByteIsNoSpecialToken) {
  write("\"ab\": 256", "a b\n");
  directory.write("added_tokens.json", "{\"\u00ef\": 239}");
  EXPECT_EQ(loadError(), "vocab.json: error: expected other special tokens than those of bytes, got that of 0xEF, "
                         "spelled '\u00ef'\n");
  directory.write("added_tokens.json", "{\"a\": 97}"); // a byte that stands for itself
  EXPECT_EQ(load().encode("ba", true), (Ids{'b', 'a'}));
}

TEST_F(VocabularyTest, MissingFiles) {
  EXPECT_EQ(
      messageOf(Tokenizer::load("/nowhere")),
      "/nowhere: error: expected vocab.json and merges.txt, tokenizer.json, or gpt2_tokenizer.bin, got none of them\n");
  directory.write("vocab.json", "{}");
  EXPECT_TRUE(StringRef(messageOf(Tokenizer::load(directory.str()))).ends_with("got no merges.txt\n"));
}

TEST_F(VocabularyTest, BadVocabularies) {
  const std::pair<StringRef, StringRef> cases[] = {
      {"\"ab\": 257", "vocab.json:258:1: error: 'ab': expected an id in 0..256, since there are 257 tokens, got 257\n"},
      {"\"ab\": -1", "vocab.json:258:1: error: 'ab': expected an id in 0..256, since there are 257 tokens, got -1\n"},
      {"\"ab\": 0", "vocab.json:258:1: error: 'ab': id 0 is taken by '\u0100'\nvocab.json:2:1: note: taken here\n"},
      {"\"a\": 256", "vocab.json:258:1: error: 'a': token is listed twice\nvocab.json:99:1: note: first listed here\n"},
      {"\"ab\": \"256\"", "vocab.json:258:7: error: 'ab': expected an integer id\n"},
      {"\"ab\": 0.5", "vocab.json:258:7: error: 'ab': expected an integer id\n"},
  };
  for (const auto &[tokens, message] : cases) {
    write(tokens, "");
    EXPECT_EQ(loadError(), message);
  }
  directory.write("vocab.json", "{\"a\": 0");
  EXPECT_TRUE(StringRef(loadError()).starts_with("vocab.json:1:"));
  directory.write("vocab.json", "{\"a\": 0}");
  EXPECT_EQ(loadError(), "vocab.json: error: expected a token for each byte, got none for 0x00, spelled '\u0100'\n");
}

TEST_F(VocabularyTest, BadMerges) {
  const std::pair<StringRef, StringRef> cases[] = {
      {"#version: 0.2\na b c\n", "2:1: error: merge: expected two parts separated by one space, got 'a b c'\n"},
      {"ab\n", "1:1: error: merge: expected two parts separated by one space, got 'ab'\n"},
      {"a b\n\n", "2:1: error: merge: expected two parts separated by one space, got ''\n"},
      {"a  b\n", "1:1: error: merge: expected two parts separated by one space, got 'a  b'\n"},
      {"a x1\n", "1:3: error: right part of a merge: 'x1' is not in the vocabulary\n"},
      {"x1 a\n", "1:1: error: left part of a merge: 'x1' is not in the vocabulary\n"},
      {"a c\n", "1:1: error: result of a merge: 'ac' is not in the vocabulary\n"},
      {"a b\na b\n", "2:1: error: merge 'a b' is listed twice\nmerges.txt:1:1: note: first listed here\n"},
  };
  for (const auto &[merges, message] : cases) {
    write("\"ab\": 256", merges);
    EXPECT_EQ(loadError(), ("merges.txt:" + message).str());
  }
}

TEST_F(VocabularyTest, MergesMustMakeEveryToken) {
  StringRef tokens = "\"ab\": 256,\n\"abc\": 257, \"<pad>\": 258, \"[x]\": 259";
  StringRef reason = ": merges may be cut off, or special tokens missing from the added ones\n";
  write(tokens, "a b\nab c\n");
  EXPECT_EQ(load().encode("abc[x]"), (Ids{257, '[', 'x', ']'}));
  for (StringRef merges : {"", "#version: 0.2\n"}) {
    write(tokens, merges);
    EXPECT_EQ(loadError(), ("merges.txt: error: expected merges that make each of the vocabulary's 2 tokens of several "
                            "bytes, got none for 2 of them" +
                            reason + "vocab.json:258:1: note: no merge makes 'ab'\n")
                               .str());
  }
  write(tokens, "a b\n");
  EXPECT_EQ(loadError(), ("merges.txt: error: expected merges that make each of the vocabulary's 2 tokens of several "
                          "bytes, got none for 1 of them" +
                          reason + "vocab.json:259:1: note: no merge makes 'abc'\n")
                             .str());
  directory.write("added_tokens.json", "{\"abc\": 257}");
  EXPECT_EQ(load().encode("abc", true), Ids{257});
}

//===----------------------------------------------------------------------===//
// tokenizer.json
//===----------------------------------------------------------------------===//

class TokenizerJsonTest : public VocabularyTest {
protected:
  static constexpr StringRef byteLevel = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";

  /// Writes a file with the bytes, `ab` and two added tokens; `merges` and the rest are given.
  void writeJson(StringRef merges, StringRef modelOptions = "", StringRef rest = "") {
    std::string text = R"({"version": "1.0", "added_tokens": [
{"id": 256, "content": "<|endoftext|>", "special": true, "lstrip": false},
{"id": 258, "content": "<x y>"}],
"model": {"type": "BPE", "unk_token": null, "end_of_word_suffix": "", )" +
                       modelOptions.str() + "\"vocab\": {" + byteEntries() +
                       "\"<|endoftext|>\": 256, \"ab\": 257},\n\"merges\": " + merges.str() + "}";
    if (!rest.contains("pre_tokenizer"))
      text += ", \"pre_tokenizer\": " + byteLevel.str();
    directory.write("tokenizer.json", text + rest.str() + "}");
  }
};

TEST_F(TokenizerJsonTest, BothSpellingsOfMerges) {
  for (StringRef merges : {"[\"a b\"]", "[[\"a\", \"b\"]]"}) {
    writeJson(merges, "\"dropout\": null, ",
              R"(, "normalizer": null, "post_processor": {"type": "ByteLevel", "add_prefix_space": true})");
    Tokenizer tokenizer = load();
    EXPECT_EQ(tokenizer.vocabSize(), 259);
    EXPECT_EQ(tokenizer.encode("abb<x y><|endoftext|>", true), (Ids{257, 'b', 258, 256}));
    EXPECT_EQ(tokenizer.encode("<x y>").size(), 5u);
    EXPECT_EQ(unwrap(tokenizer.decode({258, 257})), "<x y>ab");
  }
}

TEST_F(TokenizerJsonTest, OptionsThatChangeTheIdsAreRefused) {
  const std::array<StringRef, 3> cases[] = {
      {R"("byte_fallback": true,)", "", "byte_fallback: expected false, got true"},
      {R"("dropout": 0.5,)", "", "dropout: expected 0, got 0.5"},
      {R"("continuing_subword_prefix": "##",)", "", "continuing_subword_prefix: expected \"\", got \"##\""},
      {"", R"(, "normalizer": {"type": "NFC"})", "normalizer: expected null, since GPT-2 does not normalise"},
      {"", R"(, "pre_tokenizer": {"type": "Whitespace"})", "pre_tokenizer: expected type ByteLevel, got Whitespace"},
      {"", R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true})",
       "add_prefix_space: expected false, got true"},
      {"", R"(, "post_processor": {"type": "TemplateProcessing"})",
       "post_processor: expected type ByteLevel, got TemplateProcessing"},
  };
  for (const auto &[modelOptions, rest, message] : cases) {
    writeJson("[]", modelOptions, rest);
    EXPECT_TRUE(StringRef(loadError()).contains(("error: " + message + "\n").str())) << loadError();
  }
}

TEST_F(TokenizerJsonTest, BadFiles) {
  writeJson("[\"a b\", \"a\"]");
  EXPECT_EQ(loadError(), "tokenizer.json:261:19: error: merge: expected two parts\n");
  writeJson("[\n[\"a\", 1]]");
  EXPECT_EQ(loadError(), "tokenizer.json:262:1: error: merge: expected two parts\n");
  writeJson("[\"a c\"]");
  EXPECT_EQ(loadError(), "tokenizer.json:261:12: error: result of a merge: 'ac' is not in the vocabulary\n");
  writeJson(
      "[\"a b\"], \"merges\": [\"a b\", \"x\"]"); // the last of two members counts, and the error has its position
  EXPECT_EQ(loadError(), "tokenizer.json:261:38: error: merge: expected two parts\n");
  writeJson("{}");
  EXPECT_EQ(loadError(), "tokenizer.json:261:11: error: model: expected an array 'merges'\n");
  writeJson("[]");
  EXPECT_EQ(loadError(),
            "tokenizer.json: error: expected merges that make each of the vocabulary's 1 tokens of several "
            "bytes, got none for 1 of them: merges may be cut off, or special tokens missing from the "
            "added ones\ntokenizer.json:260:23: note: no merge makes 'ab'\n");
  directory.write("tokenizer.json", "{}");
  EXPECT_EQ(loadError(), "tokenizer.json: error: expected a member 'model'\n");
}

} // namespace
} // namespace kiln
