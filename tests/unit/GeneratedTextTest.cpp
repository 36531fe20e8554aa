#include "FakeModel.h"

#include "runtime/generation/Generator.h"

namespace kiln {
namespace {

/// Generates a given text after any prompt (of one token).
class ScriptedModel : public FakeModel {
public:
  explicit ScriptedModel(Ids script) : script(std::move(script)) {}
  int64_t vocabSize() const override { return 1009; }
  int64_t contextLength() const override { return 1000; }

protected:
  std::vector<float> makeLogits(ArrayRef<int32_t> tokens) const override {
    std::vector<float> logits(1009);
    logits[script[std::min(tokens.size() - 1, script.size() - 1)]] = 1;
    return logits;
  }

private:
  Ids script;
};

class GeneratedTextTest : public testing::Test {
protected:
  GeneratedTextTest() {
    options.sampling.greedy = true;
    options.eosIds = {1008};
    options.onToken = [this](size_t sequence, int32_t token, StringRef text) {
      EXPECT_EQ(sequence, 0u);
      EXPECT_TRUE(json::isUTF8(text));
      streamedTokens.push_back(token);
      streamed += text;
    };
  }

  /// Generates from a model whose output is `ids`; the streamed text must be their text.
  Generation run(Ids ids) {
    ScriptedModel model(std::move(ids));
    Generation result = unwrap(generate(model, &tokenizer, Ids{0}, options))[0];
    EXPECT_EQ(streamed, result.text);
    EXPECT_EQ(streamedTokens, result.newTokens);
    streamed.clear();
    streamedTokens.clear();
    return result;
  }

  Tokenizer tokenizer = unwrap(Tokenizer::load(sourcePath("graphs/shakespeare-5m")));
  GenerateOptions options;
  std::string streamed;
  Ids streamedTokens;
};

TEST_F(GeneratedTextTest, EosIsATokenButNoText) {
  Ids ids = tokenizer.encode("Good morrow, \u4e2d<|endoftext|> more", /*special=*/true);
  options.maxNewTokens = 50;
  Generation result = run(ids);
  EXPECT_EQ(result.text, "Good morrow, \u4e2d");
  EXPECT_EQ(result.newTokens.back(), 1008);
  EXPECT_EQ(result.finishReason, FinishReason::Eos);
  EXPECT_EQ(finishReasonName(result.finishReason), "eos");
}

TEST_F(GeneratedTextTest, ACutCharacterBecomesAReplacement) {
  Ids ids = tokenizer.encode("a\u4e2d");
  options.maxNewTokens = static_cast<int64_t>(ids.size()) - 1;
  EXPECT_EQ(run(ids).text, "a\uFFFD");
  options.stopStrings = {"\uFFFD"};
  EXPECT_EQ(run(ids).finishReason, FinishReason::Stop);
}

TEST_F(GeneratedTextTest, StopStringsEndTheTextBeforeThem) {
  std::string text = "Speak, speak. You are all resolved";
  Ids ids = tokenizer.encode(text);
  options.maxNewTokens = static_cast<int64_t>(ids.size());
  for (StringRef stop : {". You", "k, s", "resolved", "S", "all resolve"}) {
    options.stopStrings = {"nowhere", stop.str()};
    Generation result = run(ids);
    EXPECT_EQ(result.text, text.substr(0, text.find(stop.str())));
    EXPECT_EQ(result.finishReason, FinishReason::Stop);
    // The text ends with the token that completes the stop string.
    std::string shown = unwrap(tokenizer.decode(result.newTokens));
    EXPECT_TRUE(StringRef(shown).contains(stop));
    shown = unwrap(tokenizer.decode(ArrayRef(result.newTokens).drop_back()));
    EXPECT_FALSE(StringRef(shown).contains(stop));
  }
  options.stopStrings = {"resolved to die"};
  EXPECT_EQ(run(ids).text, text);
}

} // namespace
} // namespace kiln
