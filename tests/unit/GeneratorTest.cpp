#include "FakeModel.h"

#include "runtime/generation/Generator.h"

#include <limits>

namespace kiln {
namespace {

/// The expected result of `generate` for one prompt, computed naively: all tokens again for each new one.
Ids naiveTokens(Ids tokens, int64_t count, size_t sequence, const SamplingParams &params) {
  Sampler sampler(params);
  Ids result;
  for (int64_t step = 0; step < count; ++step) {
    result.push_back(unwrap(sampler.choose(logitsAfter(tokens, 50), sequence, tokens.size())));
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
    EXPECT_TRUE(std::is_permutation(model.prefilled.begin(), model.prefilled.end(), prompts.begin(), prompts.end()));
    EXPECT_EQ(model.decoded, 5 * 4);
    EXPECT_EQ(results[0].newTokens == results[4].newTokens, greedy);
  }
}

TEST(GeneratorTest, TextGoesOnAsItWouldHaveInOneRun) {
  GenerateOptions options;
  options.maxNewTokens = 6;
  options.sampling = {.temperature = 1.5, .seed = 4};
  FakeModel model;
  Ids whole = unwrap(generate(model, nullptr, {{1, 2, 3}}, options))[0].newTokens;
  Ids longer = {1, 2, 3, whole[0], whole[1]};
  options.maxNewTokens = 4;
  EXPECT_EQ(unwrap(generate(model, nullptr, longer, options))[0].newTokens, Ids(whole.begin() + 2, whole.end()));
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

TEST(GeneratorTest, ACancelledCallKeepsWhatEachSequenceHas) {
  GenerateOptions options;
  options.maxNewTokens = 5;
  options.sampling.greedy = true;
  FakeModel whole, model;
  auto expected = unwrap(generate(whole, nullptr, prompts, options));
  size_t asked = 0;
  options.isCancelled = [&] { return ++asked > 3; }; // before the prompts, and two steps
  auto results = unwrap(generate(model, nullptr, prompts, options));
  ASSERT_EQ(results.size(), prompts.size());
  // The longest prompts come first.
  const std::vector<Ids> firstBatch = {prompts[2], prompts[0]};
  for (size_t i = 0; i < prompts.size(); ++i) {
    ArrayRef<int32_t> tokens = expected[i].newTokens;
    EXPECT_EQ(ArrayRef(results[i].newTokens), tokens.take_front(i == 0 || i == 2 ? 2 : 0)) << i;
    EXPECT_EQ(results[i].finishReason, FinishReason::Cancelled);
  }
  EXPECT_EQ(model.prefilled, firstBatch);

  options.maxNewTokens = 0; // nothing is left to cancel
  EXPECT_EQ(unwrap(generate(model, nullptr, prompts, options))[0].finishReason, FinishReason::Length);
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

TEST(GeneratorTest, EchoedPromptsHaveTheirLogProbabilitiesAndTheSameTokens) {
  GenerateOptions options;
  options.maxNewTokens = 5;
  options.sampling = {.temperature = 0.9, .seed = 5};
  options.logProbabilities = 2;
  FakeModel model;
  auto plain = unwrap(generate(model, nullptr, prompts, options));
  options.echo = true;
  auto echoed = unwrap(generate(model, nullptr, prompts, options));
  options.maxNewTokens = 0;
  auto scored = unwrap(generate(model, nullptr, prompts, options));
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(echoed[i].newTokens, plain[i].newTokens);
    EXPECT_FALSE(plain[i].promptLogProbabilities);
    EXPECT_TRUE(scored[i].newTokens.empty());
    for (const Generation &result : {echoed[i], scored[i]}) {
      ASSERT_TRUE(result.promptLogProbabilities);
      ASSERT_EQ(result.promptLogProbabilities->size(), prompts[i].size() - 1);
      for (size_t at = 1; at < prompts[i].size(); ++at) {
        auto wanted = logProbabilities(logitsAfter(ArrayRef(prompts[i]).take_front(at), 50), prompts[i][at], 2);
        const ChosenLogProbabilities &found = (*result.promptLogProbabilities)[at - 1];
        EXPECT_EQ(found.chosen.token, prompts[i][at]);
        EXPECT_EQ(found.chosen.logProbability, wanted.chosen.logProbability);
        ASSERT_EQ(found.top.size(), 2u);
        EXPECT_EQ(found.top[1].token, wanted.top[1].token);
      }
    }
  }
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

  // Computed naively: a window that is cut to its last five tokens when a thirteenth would be fed.
  std::vector<Ids> wanted, restarts;
  for (size_t i = 0; i < 2; ++i) {
    Sampler sampler(options.sampling);
    Ids window = two[i], tokens;
    for (int step = 0; step < 20; ++step) {
      if (window.size() > 12) {
        window.erase(window.begin(), window.end() - 5);
        restarts.push_back(window);
      }
      tokens.push_back(unwrap(sampler.choose(logitsAfter(window, 50), i, two[i].size() + tokens.size())));
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
// Other streams, and errors
//===----------------------------------------------------------------------===//

/// Counts up from each prompt's last token, without any logits, like a device.
class CountingStream : public TokenStream {
public:
  explicit CountingStream(size_t rows) : last(rows) {}
  Error start(ArrayRef<RowStart> starts) override {
    for (const RowStart &start : starts)
      last[start.row] = start.tokens.back();
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
    return std::make_unique<CountingStream>(options.rows);
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

/// Has more tokens than the embedded tokenizer.
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
  EXPECT_EQ(with([](GenerateOptions &o) { o.stopStrings = {""}; }), "error: --stop: expected some text, got none\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.stopStrings = {"x"}; }),
            "error: --stop: expected a tokenizer to compare text with, got none\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.slideKeep = 13; }),
            "error: slideKeep: expected 0 (half the context) or up to the context of 12 tokens, got 13\n");
  EXPECT_EQ(with([](GenerateOptions &o) { o.sampling.topK = -2; }),
            "error: --top-k: expected 0 (off) or more, got -2\n");
  EXPECT_EQ(model.prefilled.size(), 1u);
}

TEST(GeneratorTest, EchoNeedsLogProbabilities) {
  GenerateOptions options;
  options.echo = true;
  FakeModel model;
  EXPECT_EQ(messageOf(generate(model, nullptr, prompts, options)),
            "error: --echo: expected --logprobs, of the prompt's tokens, got none\n");
}

TEST(GeneratorTest, ErrorsOnTheWayAreReturned) {
  BadLogitsModel model;
  GenerateOptions options;
  options.maxNewTokens = 3;
  EXPECT_EQ(messageOf(generate(model, nullptr, Ids{1}, options)),
            "error: logits: expected finite numbers, got nan for token 7\n");

  Tokenizer tokenizer = unwrap(Tokenizer::load(sourcePath("graphs/shakespeare-5m")));
  WideModel wide;
  EXPECT_EQ(messageOf(generate(wide, &tokenizer, Ids{1007}, options)), "error: token id: expected 0..1008, got 1009\n");
}

TEST(GeneratorTest, PolicyNames) {
  EXPECT_EQ(parseOverflowPolicy("error"), OverflowPolicy::Error);
  EXPECT_EQ(parseOverflowPolicy("stop"), OverflowPolicy::Stop);
  EXPECT_EQ(parseOverflowPolicy("slide"), OverflowPolicy::Slide);
  EXPECT_EQ(parseOverflowPolicy("Slide"), std::nullopt);
}

} // namespace
} // namespace kiln
