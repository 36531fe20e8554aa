#include "TestSupport.h"

#include "runtime/text/ByteAlphabet.h"
#include "runtime/text/PreTokenizer.h"
#include "runtime/text/Tokenizer.h"
#include "support/text/Utf8.h"

namespace kiln {
namespace {

using Ids = std::vector<int32_t>;

//===----------------------------------------------------------------------===//
// UTF-8
//===----------------------------------------------------------------------===//

TEST(Utf8Test, ReplacesMaximalSubpartsAsPythonDoes) {
  const std::pair<StringRef, StringRef> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80"},
      {"\x80", "?"},
      {"\xC0\x80", "??"},           // overlong
      {"\xE0\x80\x80", "???"},      // overlong
      {"\xED\xA0\x80", "???"},      // a surrogate
      {"\xF0\x80\x80\x80", "????"}, // overlong
      {"\xF4\x90\x80\x80", "????"}, // past U+10FFFF
      {"\xF5\x80", "??"},
      {"\xE2\x82"
       "A",
       "?A"},
      {"\xF0\x9F\x98"
       "A",
       "?A"},
      {"\xF0\x9F\x98", "?"},
      {"\xE2\x82\xE2\x82\xAC", "?\xE2\x82\xAC"},
      {"\xC3", "?"},
  };
  for (const auto &[bytes, expected] : cases) {
    std::string wanted;
    for (char c : expected)
      wanted += c == '?' ? replacementCharacter.str() : std::string(1, c);
    EXPECT_EQ(replaceInvalidUtf8(bytes), wanted) << llvm::toHex(bytes);
  }
}

TEST(Utf8Test, EveryScalarSurvivesAndEveryPrefixOfItIsIncomplete) {
  for (char32_t scalar = 0; scalar <= 0x10FFFF; scalar += scalar < 0x1000 ? 1 : 61) {
    if (scalar >= 0xD800 && scalar < 0xE000)
      continue;
    char buffer[4];
    char *end = buffer;
    ASSERT_TRUE(llvm::ConvertCodePointToUTF8(scalar, end));
    StringRef text(buffer, end - buffer);
    Utf8Character character = firstCharacter(text);
    ASSERT_EQ(character.kind, Utf8Character::Kind::Valid);
    ASSERT_EQ(character.scalar, scalar);
    ASSERT_EQ(character.length, text.size());
    ASSERT_EQ(incompleteTailLength(text), 0u);
    for (size_t length = 1; length < text.size(); ++length)
      ASSERT_EQ(incompleteTailLength(("x" + text.take_front(length)).str()), length) << uint32_t(scalar);
  }
}

TEST(Utf8Test, WhatCanNeverBecomeACharacterIsNotHeldBack) {
  for (StringRef text : {"", "a", "\x80", "\xC0", "\xE0\x80", "\xED\xA0", "\xF4\x90", "\xF5", "\xE2\x82\xAC\x82"})
    EXPECT_EQ(incompleteTailLength(text), 0u) << llvm::toHex(text);
}

//===----------------------------------------------------------------------===//
// Pre-tokenisation
//===----------------------------------------------------------------------===//

std::vector<std::string> split(StringRef text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    pieces.push_back(firstPreToken(text).str());
    text = text.drop_front(pieces.back().size());
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizerTest, Contractions) {
  EXPECT_EQ(split("I'll we've you're it's don't I'm he'd"),
            (Pieces{"I", "'ll", " we", "'ve", " you", "'re", " it", "'s", " don", "'t", " I", "'m", " he", "'d"}));
  EXPECT_EQ(split("DON'T x'rex 'sx"), (Pieces{"DON", "'", "T", " x", "'re", "x", " '", "sx"}));
  EXPECT_EQ(split("'l!'s"), (Pieces{"'", "l", "!'", "s"}));
  EXPECT_EQ(split("'"), (Pieces{"'"}));
}

TEST(PreTokenizerTest, RunsOfOneClassTakeOneSpaceBefore) {
  EXPECT_EQ(split("ab12 c3 !? 4."), (Pieces{"ab", "12", " c", "3", " !?", " 4", "."}));
  // U+2177 and U+00BD are numbers, U+0301 is a mark and so neither letter nor number.
  EXPECT_EQ(split("\u2177\u00BD \u00E9\u0301x"), (Pieces{"\u2177\u00BD", " \u00E9", "\u0301", "x"}));
}

TEST(PreTokenizerTest, WhiteSpaceLeavesItsLastCharacterToWhatFollows) {
  EXPECT_EQ(split("a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(split("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split("  \n  x"), (Pieces{"  \n ", " x"}));
  EXPECT_EQ(split("\n\nx"), (Pieces{"\n", "\n", "x"}));
  EXPECT_EQ(split(" \u00A0x"), (Pieces{" ", "\u00A0", "x"}));
  EXPECT_EQ(split("\tx \t"), (Pieces{"\t", "x", " \t"}));
  EXPECT_EQ(split("x \u3000y"), (Pieces{"x", " ", "\u3000", "y"}));
  EXPECT_EQ(split(" "), (Pieces{" "}));
}

TEST(PreTokenizerTest, WhiteSpaceIsTheUnicodeProperty) {
  DenseSet<unsigned> spaces = {0x9,    0xA,    0xB,    0xC,    0xD,    0x20,   0x85,   0xA0,   0x1680,
                               0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                               0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  for (char32_t scalar = 0; scalar <= 0x10FFFF; ++scalar)
    ASSERT_EQ(classify(scalar) == CharacterClass::Space, spaces.contains(scalar)) << uint32_t(scalar);
}

//===----------------------------------------------------------------------===//
// Tokens of the embedded model
//===----------------------------------------------------------------------===//

TEST(ByteAlphabetTest, SpellsEveryByteOnceAndBack) {
  std::set<std::string> spellings;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling = spellByte(static_cast<uint8_t>(byte));
    EXPECT_TRUE(spellings.insert(spelling).second);
    EXPECT_EQ(bytesOfToken(spelling), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(spellByte(' '), "\u0120");
  EXPECT_EQ(spellByte('\n'), "\u010A");
  EXPECT_EQ(spellByte(0xAD), "\u0143");
  EXPECT_EQ(bytesOfToken("a b\u0120"), "a b\u0120");
  EXPECT_EQ(bytesOfToken("\u0144"), "\u0144");
}

class EmbeddedTokenizerTest : public testing::Test {
protected:
  Tokenizer tokenizer = unwrap(Tokenizer::load(sourcePath("graphs/shakespeare-5m")));

  std::string decode(ArrayRef<int32_t> ids) { return unwrap(tokenizer.decode(ids)); }
};

TEST_F(EmbeddedTokenizerTest, AgreesWithTheOracle) {
  std::string text = unwrap(readFile(sourcePath("tests/data/shakespeare-5m/oracle.json")));
  json::Value oracle = unwrap(json::parse(text));
  const json::Array &prompts = *oracle.getAsObject()->getArray("prompts");
  ASSERT_EQ(prompts.size(), 4u);
  for (const json::Value &prompt : prompts) {
    auto idsOf = [&](StringRef key) {
      Ids ids;
      for (const json::Value &id : *prompt.getAsObject()->getArray(key))
        ids.push_back(static_cast<int32_t>(*id.getAsInteger()));
      return ids;
    };
    EXPECT_EQ(tokenizer.encode(*prompt.getAsObject()->getString("text")), idsOf("ids"));
    EXPECT_EQ(decode(idsOf("greedy_ids")), *prompt.getAsObject()->getString("greedy_text"));
  }
}

TEST_F(EmbeddedTokenizerTest, SpecialTokensOnlyWhenAskedFor) {
  EXPECT_EQ(tokenizer.vocabSize(), 1009);
  EXPECT_EQ(tokenizer.endOfText(), 1008);
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", /*special=*/true), Ids{1008});
  Ids ordinary = tokenizer.encode("<|endoftext|>");
  EXPECT_GT(ordinary.size(), 1u);
  EXPECT_EQ(decode(ordinary), "<|endoftext|>");
  EXPECT_EQ(decode({1008}), "<|endoftext|>");

  Ids around = tokenizer.encode("a \n");
  around.push_back(1008);
  for (int32_t id : tokenizer.encode(" b<|"))
    around.push_back(id);
  EXPECT_EQ(tokenizer.encode("a \n<|endoftext|> b<|", /*special=*/true), around);
}

TEST_F(EmbeddedTokenizerTest, EveryByteStringRoundTripsUpToReplacement) {
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  uint32_t state = 1;
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int length = round % 40; length > 0; --length) {
      state = state * 1664525 + 1013904223;
      // Half of the characters are ASCII, so that words, spaces and broken characters mix.
      text += static_cast<char>(state >> 31 ? (state >> 16 & 0x7F) : (state >> 16 & 0xFF));
    }
    Ids ids = tokenizer.encode(text);
    EXPECT_EQ(decode(ids), replaceInvalidUtf8(text)) << llvm::toHex(text);

    StreamingDecoder stream(tokenizer);
    std::string streamed;
    for (int32_t id : ids) {
      std::string piece = unwrap(stream.push(id));
      EXPECT_TRUE(json::isUTF8(piece));
      streamed += piece;
    }
    EXPECT_EQ(streamed + stream.finish(), decode(ids));
  }
}

TEST_F(EmbeddedTokenizerTest, StreamHoldsBackAnIncompleteCharacter) {
  Ids smiley = tokenizer.encode("\U0001F600");
  ASSERT_EQ(smiley.size(), 4u);
  StreamingDecoder stream(tokenizer);
  EXPECT_EQ(unwrap(stream.push(smiley[0])), "");
  EXPECT_EQ(unwrap(stream.push(smiley[1])), "");
  EXPECT_EQ(unwrap(stream.push(smiley[2])), "");
  EXPECT_EQ(unwrap(stream.push(smiley[3])), "\U0001F600");
  EXPECT_EQ(unwrap(stream.push(smiley[0])), "");
  EXPECT_EQ(unwrap(stream.push(tokenizer.encode("a")[0])), "\uFFFDa");
  EXPECT_EQ(unwrap(stream.push(smiley[0])), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST_F(EmbeddedTokenizerTest, AnIdOutOfRangeIsAnError) {
  EXPECT_EQ(messageOf(tokenizer.decode({0, 1009})), "error: token id: expected 0..1008, got 1009\n");
  EXPECT_EQ(messageOf(tokenizer.decode({-1})), "error: token id: expected 0..1008, got -1\n");
  EXPECT_EQ(messageOf(StreamingDecoder(tokenizer).push(5000)), "error: token id: expected 0..1008, got 5000\n");
}

//===----------------------------------------------------------------------===//
// OpenAI's vocabulary, if it is there
//===----------------------------------------------------------------------===//

TEST(Gpt2VocabularyTest, EdgeVectors) {
  const char *directory = std::getenv("KILN_GPT2_VOCAB");
  if (!directory)
    GTEST_SKIP() << "KILN_GPT2_VOCAB does not name a directory with GPT-2's encoder.json and vocab.bpe";
  Tokenizer tokenizer = unwrap(Tokenizer::load(directory));
  EXPECT_EQ(tokenizer.vocabSize(), 50257);
  const std::pair<StringRef, Ids> cases[] = {
      {"don't DON'T 'S we'LL", {9099, 470, 23917, 6, 51, 705, 50, 356, 6, 3069}},
      {"x'rex", {87, 821, 87}},
      {"a  b", {64, 220, 275}},
      {"a   ", {64, 220, 220, 220}},
      {"\n\nFirst", {198, 198, 5962}},
      {"First\n\n", {5962, 628}},
      {"  \n  x", {220, 220, 198, 220, 2124}},
      {" \u00a0x", {220, 1849, 87}},
      {"\u2177\u00bd\u0663", {158, 227, 115, 23141, 149, 96}},
      {"<|endoftext|>", {27, 91, 437, 1659, 5239, 91, 29}},
  };
  for (const auto &[text, ids] : cases)
    EXPECT_EQ(tokenizer.encode(text), ids) << text.str();
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", /*special=*/true), Ids{50256});
}

} // namespace
} // namespace kiln
