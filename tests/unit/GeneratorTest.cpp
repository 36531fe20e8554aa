#include "TestSupport.h"

#include "runtime/Generator.h"
#include "runtime/StopStrings.h"
#include "runtime/Utf8.h"
#include "support/Random.h"

#include <limits>

namespace kiln {
namespace {

using Ids = std::vector<int32_t>;

//===----------------------------------------------------------------------===//
// Stop strings
//===----------------------------------------------------------------------===//

/// Feeds `text` in pieces cut where `cuts` has a bit, and returns all that comes out.
std::string filter(ArrayRef<std::string> strings, StringRef text, unsigned cuts, bool &stopped) {
  StopStrings filter(strings);
  std::string result, piece;
  for (size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if (cuts >> i & 1)
      result += filter.push(std::exchange(piece, {}));
  }
  result += filter.push(piece);
  result += filter.finish();
  stopped = filter.isStopped();
  return result;
}

TEST(StopStringsTest, TheResultDoesNotDependOnThePieces) {
  struct Case {
    std::vector<std::string> strings;
    StringRef text, wanted;
    bool stopped;
  };
  const Case cases[] = {
      {{}, "abcabc", "abcabc", false},
      {{"ca"}, "abcabc", "ab", true},
      {{"abcd"}, "abcabc", "abcabc", false},
      {{"abcd", "c"}, "xabcd", "xab", true},
      {{"b", "ab"}, "xxab", "xx", true},
      {{"aab"}, "aaaaab", "aaa", true},
      {{"\n\n", "END"}, "EN\nEND", "EN\n", true},
      {{"abab"}, "abaabab", "aba", true},
  };
  for (const Case &c : cases)
    for (unsigned cuts = 0; cuts < 1u << c.text.size(); ++cuts) {
      bool stopped = false;
      EXPECT_EQ(filter(c.strings, c.text, cuts, stopped), c.wanted) << c.text.str() << ' ' << cuts;
      EXPECT_EQ(stopped, c.stopped);
    }
}

TEST(StopStringsTest, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopStrings filter({"stop", "tour"});
  EXPECT_EQ(filter.push("a st"), "a ");
  EXPECT_EQ(filter.push("o"), "");
  EXPECT_EQ(filter.push("u"), "s"); // now it can only be "tour"
  EXPECT_EQ(filter.push("x"), "toux");
  EXPECT_EQ(filter.push("st"), "");
  EXPECT_EQ(filter.finish(), "st");
}

//===----------------------------------------------------------------------===//
// A model of tokens
//===----------------------------------------------------------------------===//

/// The logits after some tokens: pseudo-random numbers that depend on all of them and their positions.
std::vector<float> logitsAfter(ArrayRef<int32_t> tokens, int64_t vocabSize) {
  uint32_t hash = 1;
  for (int32_t token : tokens)
    hash = (hash ^ static_cast<uint32_t>(token)) * 16777619u + 7;
  std::vector<float> logits;
  for (int64_t id = 0; id < vocabSize; ++id)
    logits.push_back(4 * uniformFloat(philox4x32({hash, static_cast<uint32_t>(id), 0, 0}, 0)[0]));
  return logits;
}

class FakeModel : public LanguageModel {
public:
  int64_t vocabSize() const override { return 50; }
  int64_t contextLength() const override { return 12; }
  int64_t maxBatch() const override { return 2; }

  Error prefill(ArrayRef<Ids> prompts, MutableArrayRef<std::vector<float>> logits) override {
    EXPECT_LE(prompts.size(), 2u);
    EXPECT_EQ(prompts.size(), logits.size());
    rows.resize(prompts.size());
    for (size_t row = 0; row < prompts.size(); ++row) {
      if (prompts[row].empty())
        continue;
      EXPECT_LE(static_cast<int64_t>(prompts[row].size()), contextLength());
      rows[row] = prompts[row];
      prefilled.push_back(prompts[row]);
      logits[row] = makeLogits(rows[row]);
    }
    return Error::success();
  }

  Error decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) override {
    EXPECT_EQ(tokens.size(), rows.size());
    EXPECT_EQ(logits.size(), rows.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      if (tokens[row] == idleRow)
        continue;
      rows[row].push_back(tokens[row]);
      if (static_cast<int64_t>(rows[row].size()) > contextLength())
        return makeError("the context is full");
      logits[row] = makeLogits(rows[row]);
      ++decoded;
    }
    return Error::success();
  }

  std::vector<Ids> rows, prefilled;
  int decoded = 0; ///< tokens

protected:
  virtual std::vector<float> makeLogits(ArrayRef<int32_t> tokens) const { return logitsAfter(tokens, 50); }
};

/// What `generate` must give for one prompt, computed the long way: all tokens again for each new one.
Ids naiveTokens(Ids tokens, int64_t count, size_t sequence, const SamplingParams &params) {
  Sampler sampler(params);
  Ids result;
  for (int64_t step = 0; step < count; ++step) {
    result.push_back(unwrap(sampler.choose(logitsAfter(tokens, 50), sequence, step)));
    tokens.push_back(result.back());
  }
  return result;
}

const std::vector<Ids> prompts = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11}, {12, 13}, {1, 2, 3}};

TEST(GeneratorTest, EachSequenceIsAsIfItWereAlone) {
  for (bool greedy : {true, false}) {
    GenerateOptions options;
    options.maxNewTokens = 5;
    options.sampling = {.greedy = greedy, .temperature = 0.9, .topK = 20, .topP = 0.95, .seed = 11};
    FakeModel model;
    std::vector<Generation> results = unwrap(generate(model, nullptr, prompts, options));
    ASSERT_EQ(results.size(), prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(results[i].promptTokens, prompts[i]);
      EXPECT_EQ(results[i].newTokens, naiveTokens(prompts[i], 5, i, options.sampling)) << i;
      EXPECT_EQ(results[i].finishReason, FinishReason::Length);
      EXPECT_EQ(results[i].tokenMs.size(), 5u);
      EXPECT_EQ(results[i].text, "");
      EXPECT_TRUE(results[i].logits.empty());
    }
    // The last token of a sequence is never fed.
    EXPECT_EQ(model.prefilled, prompts);
    EXPECT_EQ(model.decoded, 5 * 4);
    EXPECT_EQ(results[0].newTokens == results[4].newTokens, greedy);
  }
}

TEST(GeneratorTest, EosEndsASequenceAndNotItsNeighbour) {
  GenerateOptions options;
  options.maxNewTokens = 5;
  options.sampling.greedy = true;
  Ids alone = naiveTokens(prompts[0], 5, 0, options.sampling);
  Ids neighbour = naiveTokens(prompts[1], 5, 1, options.sampling);
  options.eosIds = {49, alone[2]};
  ASSERT_FALSE(llvm::is_contained(neighbour, alone[2]) || llvm::is_contained(neighbour, 49));
  FakeModel model;
  auto results = unwrap(generate(model, nullptr, ArrayRef(prompts).take_front(2), options));
  EXPECT_EQ(results[0].newTokens, (Ids{alone[0], alone[1], alone[2]}));
  EXPECT_EQ(results[0].finishReason, FinishReason::Eos);
  EXPECT_EQ(results[1].newTokens, neighbour);
  EXPECT_EQ(results[1].finishReason, FinishReason::Length);
  EXPECT_EQ(model.decoded, 2 + 4);

  options.ignoreEos = true;
  EXPECT_EQ(unwrap(generate(model, nullptr, prompts[0], options))[0].newTokens, alone);
}

TEST(GeneratorTest, KeptLogitsAreTheRowsThatChose) {
  GenerateOptions options;
  options.maxNewTokens = 3;
  options.sampling.greedy = true;
  options.keepLogits = true;
  FakeModel model;
  auto results = unwrap(generate(model, nullptr, ArrayRef(prompts).take_front(2), options));
  for (const Generation &result : results) {
    Ids tokens = result.promptTokens;
    ASSERT_EQ(result.logits.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(result.logits[i], logitsAfter(tokens, 50));
      tokens.push_back(result.newTokens[i]);
    }
  }
}

TEST(GeneratorTest, NoNewTokensRunNothing) {
  GenerateOptions options;
  options.maxNewTokens = 0;
  FakeModel model;
  auto results = unwrap(generate(model, nullptr, prompts, options));
  EXPECT_EQ(results.size(), prompts.size());
  EXPECT_TRUE(results[0].newTokens.empty());
  EXPECT_EQ(results[0].finishReason, FinishReason::Length);
  EXPECT_TRUE(model.prefilled.empty());
  EXPECT_TRUE(unwrap(generate(model, nullptr, {}, options)).empty());
}

//===----------------------------------------------------------------------===//
// The context's end
//===----------------------------------------------------------------------===//

TEST(GeneratorTest, OverflowErrorSaysBothNumbersBeforeAnythingRuns) {
  GenerateOptions options;
  options.maxNewTokens = 6;
  FakeModel model;
  EXPECT_EQ(messageOf(generate(model, nullptr, prompts, options)),
            "error: prompt 3: expected prompt and new tokens to fit in the context of 12, got 7 and 6; lower "
            "--max-new-tokens to 5, shorten the prompt, or choose --overflow stop or slide\n");
  EXPECT_TRUE(model.prefilled.empty());
}

TEST(GeneratorTest, OverflowStopFillsTheContext) {
  GenerateOptions options;
  options.maxNewTokens = 100;
  options.overflow = OverflowPolicy::Stop;
  options.sampling.greedy = true;
  FakeModel model;
  auto results = unwrap(generate(model, nullptr, {prompts[2], Ids(12, 1)}, options));
  EXPECT_EQ(results[0].newTokens, naiveTokens(prompts[2], 5, 0, options.sampling));
  EXPECT_EQ(results[0].finishReason, FinishReason::Length);
  EXPECT_TRUE(results[1].newTokens.empty());
}

TEST(GeneratorTest, OverflowSlideKeepsTheLastTokensAndLeavesNeighboursAlone) {
  GenerateOptions options;
  options.maxNewTokens = 20;
  options.overflow = OverflowPolicy::Slide;
  options.slideKeep = 5;
  options.sampling = {.temperature = 0.8, .seed = 3};
  std::vector<Ids> two = {prompts[2], prompts[1]};

  // The long way: a window that is cut down to its last five when a thirteenth token would have to be fed.
  std::vector<Ids> wanted, restarts;
  for (size_t i = 0; i < 2; ++i) {
    Sampler sampler(options.sampling);
    Ids window = two[i], tokens;
    for (int step = 0; step < 20; ++step) {
      if (window.size() > 12) {
        window.erase(window.begin(), window.end() - 5);
        restarts.push_back(window);
      }
      tokens.push_back(unwrap(sampler.choose(logitsAfter(window, 50), i, step)));
      window.push_back(tokens.back());
    }
    wanted.push_back(tokens);
  }
  FakeModel model;
  auto results = unwrap(generate(model, nullptr, two, options));
  EXPECT_EQ(results[0].newTokens, wanted[0]);
  EXPECT_EQ(results[1].newTokens, wanted[1]);
  // Only the rows that slide are prefilled again.
  std::vector<Ids> again(model.prefilled.begin() + 2, model.prefilled.end());
  EXPECT_GE(again.size(), 3u);
  llvm::sort(again);
  llvm::sort(restarts);
  EXPECT_EQ(again, restarts);
}

TEST(GeneratorTest, SlideKeepsHalfTheContextByDefault) {
  GenerateOptions options;
  options.maxNewTokens = 14;
  options.overflow = OverflowPolicy::Slide;
  FakeModel model;
  unwrap(generate(model, nullptr, prompts[1], options));
  ASSERT_EQ(model.prefilled.size(), 2u);
  EXPECT_EQ(model.prefilled[1].size(), 6u);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Says a given text, whatever the prompt (one token).
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

  /// Generates from a model that says `ids`; the streamed text must be the text.
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
    // Up to and including the token that completes it.
    std::string shown = unwrap(tokenizer.decode(result.newTokens));
    EXPECT_TRUE(StringRef(shown).contains(stop));
    shown = unwrap(tokenizer.decode(ArrayRef(result.newTokens).drop_back()));
    EXPECT_FALSE(StringRef(shown).contains(stop));
  }
  options.stopStrings = {"resolved to die"};
  EXPECT_EQ(run(ids).text, text);
}

//===----------------------------------------------------------------------===//
// Other streams, and errors
//===----------------------------------------------------------------------===//

/// Counts up from each prompt's last token, without a single row of logits: as a device would.
class CountingStream : public TokenStream {
public:
  Error start(ArrayRef<Ids> prompts) override {
    last.resize(prompts.size());
    for (size_t row = 0; row < prompts.size(); ++row)
      if (!prompts[row].empty())
        last[row] = prompts[row].back();
    return Error::success();
  }
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override {
    for (size_t row = 0; row < last.size(); ++row)
      tokens[row] = active.test(row) ? ++last[row] : idleRow;
    return Error::success();
  }
  ArrayRef<float> logits(size_t row) const override { return {}; }

private:
  Ids last;
};

class CountingModel : public FakeModel {
public:
  std::unique_ptr<TokenStream> openStream(const StreamOptions &options) override {
    return std::make_unique<CountingStream>();
  }
};

TEST(GeneratorTest, AModelMayChooseItsTokensItself) {
  GenerateOptions options;
  options.maxNewTokens = 3;
  options.eosIds = {5};
  CountingModel model;
  auto results = unwrap(generate(model, nullptr, {Ids{1, 20}, Ids{3}}, options));
  EXPECT_EQ(results[0].newTokens, (Ids{21, 22, 23}));
  EXPECT_EQ(results[1].newTokens, (Ids{4, 5}));
  EXPECT_TRUE(model.prefilled.empty());
}

/// Knows more tokens than the embedded tokenizer.
class WideModel : public CountingModel {
  int64_t vocabSize() const override { return 2000; }
};

class BadLogitsModel : public FakeModel {
  std::vector<float> makeLogits(ArrayRef<int32_t> tokens) const override {
    std::vector<float> logits(50);
    logits[7] = tokens.size() == 3 ? std::numeric_limits<float>::quiet_NaN() : 0;
    return logits;
  }
};

TEST(GeneratorTest, BadArguments) {
  FakeModel model;
  auto errorOf = [&](ArrayRef<Ids> given, const GenerateOptions &options) {
    return messageOf(generate(model, nullptr, given, options));
  };
  GenerateOptions good;
  good.maxNewTokens = 1;
  EXPECT_EQ(errorOf(Ids{1}, good), "");
  EXPECT_EQ(errorOf({Ids{1}, Ids{}}, good), "error: prompt 2: expected at least one token, got none\n");
  EXPECT_EQ(errorOf({Ids{1}, Ids{50}}, good), "error: prompt 2: expected token ids in 0..49, got 50\n");
  EXPECT_EQ(errorOf(Ids{-1}, good), "error: prompt 1: expected token ids in 0..49, got -1\n");
  EXPECT_EQ(errorOf(Ids(13, 1), good),
            "error: prompt 1: expected at most the context of 12 tokens, got 13; shorten the prompt\n");

  auto with = [&](auto change) {
    GenerateOptions options = good;
    change(options);
    return errorOf(Ids{1}, options);
  };
  EXPECT_EQ(with([](GenerateOptions &o) { o.maxNewTokens = -1; }),
            "error: --max-new-tokens: expected 0 or more, got -1\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.stopStrings = {""}; }),
            "error: --stop: expected some text, got none\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.stopStrings = {"x"}; }),
            "error: --stop: expected a tokenizer to compare text with, got none\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.slideKeep = 13; }),
            "error: --slide-keep: expected 0 (half the context) or up to the context of 12 tokens, got 13\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.sampling.topK = -2; }),
            "error: --top-k: expected 0 (off) or more, got -2\n");
  EXPECT_EQ(model.prefilled.size(), 1u);
}

TEST(GeneratorTest, ErrorsOnTheWayAreReturned) {
  BadLogitsModel model;
  GenerateOptions options;
  options.maxNewTokens = 3;
  EXPECT_EQ(messageOf(generate(model, nullptr, Ids{1}, options)),
            "error: logits: expected finite numbers, got nan for token 7\n");

  Tokenizer tokenizer = unwrap(Tokenizer::load(sourcePath("graphs/shakespeare-5m")));
  WideModel wide;
  EXPECT_EQ(messageOf(generate(wide, &tokenizer, Ids{1007}, options)),
            "error: token id: expected 0..1008, got 1009\n");
}

TEST(GeneratorTest, PolicyNames) {
  EXPECT_EQ(parseOverflowPolicy("error"), OverflowPolicy::Error);
  EXPECT_EQ(parseOverflowPolicy("stop"), OverflowPolicy::Stop);
  EXPECT_EQ(parseOverflowPolicy("slide"), OverflowPolicy::Slide);
  EXPECT_EQ(parseOverflowPolicy("Slide"), std::nullopt);
}

} // namespace
} // namespace kiln
