#include "FakeModel.h"

#include "runtime/generation/Generator.h"

namespace kiln {
namespace {

/// Guesses by a function of the text so far.
class FunctionDraft : public Draft {
public:
  explicit FunctionDraft(std::function<int32_t(ArrayRef<int32_t> text, uint64_t sequence, uint64_t position)> next)
      : next(std::move(next)) {}

  Error guess(ArrayRef<GuessRequest> requests, MutableArrayRef<Ids> guesses) override {
    for (auto [request, own] : llvm::zip(requests, guesses)) {
      Ids text = request.text.vec();
      for (int64_t i = 0; !request.text.empty() && i < request.count; ++i) {
        own.push_back(next(text, request.sequence, request.position + i));
        text.push_back(own.back());
      }
    }
    return Error::success();
  }

private:
  std::function<int32_t(ArrayRef<int32_t>, uint64_t, uint64_t)> next;
};

/// A model of which one token after another could be told apart from several at once.
class LongModel : public FakeModel {
public:
  explicit LongModel(int64_t context = 64) : context(context) {}
  int64_t contextLength() const override { return context; }

private:
  int64_t context;
};

const std::vector<Ids> prompts = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11}, {12, 13}, {1, 2, 1, 2, 1}};

const std::vector<SamplingParams> settings = {{.greedy = true},
                                              {.temperature = 0.9, .topK = 20, .topP = 0.95, .seed = 11},
                                              {.temperature = 0.3, .minP = 0.1, .seed = 5},
                                              {.seed = 12345}};

/// The token that the model chooses behind a text.
int32_t chosenAfter(ArrayRef<int32_t> text, const SamplingParams &params, uint64_t sequence, uint64_t position) {
  Sampler sampler(params);
  return unwrap(sampler.choose(logitsAfter(text, 50), sequence, position));
}

struct Result {
  std::vector<Ids> tokens;
  std::vector<FinishReason> reasons;
  std::vector<std::vector<std::vector<float>>> logits;
  bool operator==(const Result &) const = default;
};

Result resultOf(ArrayRef<Generation> generations) {
  Result result;
  for (const Generation &generation : generations) {
    result.tokens.push_back(generation.newTokens);
    result.reasons.push_back(generation.finishReason);
    result.logits.push_back(generation.logits);
  }
  return result;
}

/// Expects the same generations with all kinds of drafts and numbers of guesses.
void expectSameWithDrafts(GenerateOptions options, int64_t context = 64) {
  LongModel plain(context);
  const Result wanted = resultOf(unwrap(generate(plain, nullptr, prompts, options)));
  const SamplingParams &params = options.sampling;
  LongModel twin(context), shorter(9);
  ModelDraft self(twin, params), stranger(shorter, {.seed = 99});
  NgramDraft ngram;
  FunctionDraft random([](ArrayRef<int32_t> text, uint64_t, uint64_t position) {
    return static_cast<int32_t>((static_cast<uint64_t>(text.back()) * 7 + position) % 50);
  });
  FunctionDraft worst([&](ArrayRef<int32_t> text, uint64_t sequence, uint64_t position) {
    return (chosenAfter(text, params, sequence, position) + 1) % 50;
  });
  FunctionDraft mixed([&](ArrayRef<int32_t> text, uint64_t sequence, uint64_t position) {
    return (chosenAfter(text, params, sequence, position) + (position % 3 == 0 ? 1 : 0)) % 50;
  });
  for (Draft *draft : std::initializer_list<Draft *>{&self, &stranger, &ngram, &random, &worst, &mixed})
    for (int64_t most = 1; most <= 8; ++most)
      for (bool isAuto : {false, true}) {
        LongModel model(context);
        options.draft = draft;
        options.draftLength = {most, isAuto};
        EXPECT_EQ(resultOf(unwrap(generate(model, nullptr, prompts, options))), wanted) << most;
      }
}

TEST(SpeculationTest, TokensAreThoseWithoutIt) {
  for (const SamplingParams &params : settings) {
    GenerateOptions options;
    options.maxNewTokens = 25;
    options.sampling = params;
    expectSameWithDrafts(options);
  }
}

TEST(SpeculationTest, LogitsAreThoseOfTheModel) {
  GenerateOptions options;
  options.maxNewTokens = 9;
  options.sampling = settings[1];
  options.keepLogits = true;
  expectSameWithDrafts(options);
}

TEST(SpeculationTest, SequencesEndInsideOfGuesses) {
  for (const SamplingParams &params : settings) {
    GenerateOptions options;
    options.sampling = params;
    for (int64_t most : {0, 1, 2, 6}) {
      options.maxNewTokens = most;
      expectSameWithDrafts(options);
    }
    // Tokens that do occur end the sequences.
    options.maxNewTokens = 20;
    LongModel model;
    for (const Generation &generation : unwrap(generate(model, nullptr, prompts, options)))
      options.eosIds.push_back(generation.newTokens[4 + options.eosIds.size()]);
    expectSameWithDrafts(options);
    options.ignoreEos = true;
    expectSameWithDrafts(options);
  }
}

TEST(SpeculationTest, TheContextEndsInsideOfGuesses) {
  for (const SamplingParams &params : settings) {
    GenerateOptions options;
    options.sampling = params;
    options.maxNewTokens = 30;
    for (OverflowPolicy policy : {OverflowPolicy::Stop, OverflowPolicy::Slide}) {
      options.overflow = policy;
      expectSameWithDrafts(options, /*context=*/12);
    }
    options.slideKeep = 11;
    expectSameWithDrafts(options, 12);
  }
}

TEST(SpeculationTest, CountsSayWhatBecameOfGuesses) {
  GenerateOptions options;
  options.maxNewTokens = 21;
  options.sampling = settings[1];
  options.draftLength.most = 4;
  LongModel model, twin;
  ModelDraft self(twin, options.sampling);
  options.draft = &self;
  for (const Generation &generation : unwrap(generate(model, nullptr, prompts, options))) {
    // The first token is of the prompt; each pass gives five.
    EXPECT_EQ(generation.speculation.passes, 4);
    EXPECT_EQ(generation.speculation.drafted, (std::vector<int64_t>{4, 4, 4, 4}));
    EXPECT_EQ(generation.speculation.accepted, generation.speculation.drafted);
  }
  FunctionDraft worst([&](ArrayRef<int32_t> text, uint64_t sequence, uint64_t position) {
    return (chosenAfter(text, options.sampling, sequence, position) + 1) % 50;
  });
  options.draft = &worst;
  for (const Generation &generation : unwrap(generate(model, nullptr, prompts, options))) {
    EXPECT_EQ(generation.speculation.passes, 20);
    EXPECT_EQ(generation.speculation.accepted, (std::vector<int64_t>{0, 0, 0, 0}));
  }
  // Guesses that are all wrong become fewer.
  options.draftLength.isAuto = true;
  for (const Generation &generation : unwrap(generate(model, nullptr, prompts, options))) {
    EXPECT_EQ(generation.speculation.passes, 20);
    EXPECT_EQ(generation.speculation.drafted, (std::vector<int64_t>{7, 2}));
  }
  options.draft = nullptr;
  EXPECT_EQ(unwrap(generate(model, nullptr, prompts, options))[0].speculation.passes, 0);
}

TEST(DraftPaceTest, FollowsWhatIsAccepted) {
  DraftPace fixed({.most = 3}), pace({.most = 6, .isAuto = true});
  fixed.note(3, 0);
  EXPECT_EQ(fixed.count(), 3);
  EXPECT_EQ(pace.count(), 2);
  for (int pass = 0; pass < 20; ++pass)
    pace.note(pace.count(), pace.count());
  EXPECT_EQ(pace.count(), 6);
  for (int pass = 0; pass < 20; ++pass) // one of two is right
    pace.note(2, 1);
  EXPECT_EQ(pace.count(), 1);
  // Each pause is twice as long as the one before, until a guess is right.
  while (pace.count() > 0)
    pace.note(pace.count(), 0);
  for (int length : {32, 64, 128}) {
    for (int i = 0; i < length; ++i) {
      EXPECT_EQ(pace.count(), 0);
      pace.note(0, 0);
    }
    EXPECT_EQ(pace.count(), 1);
    if (length < 128)
      pace.note(1, 0);
  }
  for (int pass = 0; pass < 3; ++pass)
    pace.note(1, 1);
  EXPECT_EQ(pace.count(), 1);
}

TEST(NgramDraftTest, TheTextGoesOnAsBefore) {
  NgramDraft draft;
  auto guess = [&](Ids text, int64_t count) {
    std::vector<Ids> guesses(1);
    const GuessRequest request = {text, 0, 0, count};
    expectSuccess(draft.guess(request, guesses));
    return guesses[0];
  };
  EXPECT_EQ(guess({1, 2, 3, 4, 9, 1, 2, 3}, 3), (Ids{4, 9, 1}));
  EXPECT_EQ(guess({1, 2, 3, 1, 2, 3, 1}, 8), (Ids{2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(guess({7, 7}, 3), (Ids{7, 7, 7}));
  // The longest ending counts, then the last place.
  EXPECT_EQ(guess({1, 2, 50, 2, 60, 1, 2}, 1), (Ids{50}));
  EXPECT_EQ(guess({2, 50, 2, 60, 1, 2}, 1), (Ids{60}));
  EXPECT_EQ(guess({1, 2, 3}, 4), Ids());
  EXPECT_EQ(guess({1}, 4), Ids());
  EXPECT_EQ(guess({}, 4), Ids());
  EXPECT_EQ(guess({1, 1}, 0), Ids());
}

} // namespace
} // namespace kiln
