// Guesses and their checks on the device, passes ahead of the host: the tokens are those without guesses.

#include "runtime/RuntimeTest.h"

#include "runtime/measure/PretendedDraft.h"

namespace kiln {
namespace {

constexpr int64_t guesses = 3;

const std::vector<Ids> texts = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11, 12, 13}, {14, 15, 14, 15, 14}, {1, 2, 3}};

class DeviceSpeculationTest : public RuntimeTest {
protected:
  DeviceSpeculationTest() : RuntimeTest(/*width=*/16, "f32", /*batch=*/4, guesses) { entries.push_back(Entry::Verify); }

  static GenerateOptions sampled(int64_t maxNewTokens) {
    GenerateOptions options;
    options.maxNewTokens = maxNewTokens;
    options.sampling = {.temperature = 1.3, .topK = 40, .topP = 0.9, .seed = 17};
    return options;
  }
  static GenerateOptions greedy(int64_t maxNewTokens) {
    GenerateOptions options = sampled(maxNewTokens);
    options.sampling = {.greedy = true};
    return options;
  }

  /// The tokens and the counts of each prompt, `batch` side by side.
  std::vector<Generation> run(PlanModel &model, GenerateOptions options, Draft *draft, DraftLength length = {guesses}) {
    options.draft = draft;
    options.draftLength = length;
    return unwrap(generate(model, nullptr, texts, options));
  }

  static std::vector<Ids> tokensOf(ArrayRef<Generation> generations) {
    std::vector<Ids> tokens;
    for (const Generation &generation : generations)
      tokens.push_back(generation.newTokens);
    return tokens;
  }

  /// Expects the tokens without guesses with each kind of draft, `batch` sequences side by side and the device some
  /// passes ahead.
  void expectSameTokens(const GenerateOptions &options, int64_t batch, int64_t ahead, DraftLength length) {
    RandomCheckpoint others(/*seed=*/99, /*layers=*/2);
    auto executor = unwrap(open(weights, batch)), twin = unwrap(open(weights, batch)),
         other = unwrap(open(others, batch));
    PlanModel model(*executor), twinModel(*twin), otherModel(*other);
    ModelDraft self(twinModel, options.sampling, twin.get()), stranger(otherModel, options.sampling, other.get());
    NgramDraft ngram;
    PretendedDraft half(self, 0.5);
    device->ahead = ahead;
    const std::vector<Ids> wanted = tokensOf(run(model, options, nullptr));
    Ids text = texts[0];
    llvm::append_range(text, wanted[0]);
    half.know(text);
    for (Draft *draft : {static_cast<Draft *>(&self), static_cast<Draft *>(&stranger), static_cast<Draft *>(&ngram),
                         static_cast<Draft *>(&half)}) {
      CountingDevice::Counts before = device->counts;
      EXPECT_EQ(tokensOf(run(model, options, draft, length)), wanted);
      EXPECT_EQ(device->counts.downloads, before.downloads) << "the host reads tokens from its own memory";
    }
  }
};

TEST_F(DeviceSpeculationTest, TokensAreThoseWithoutIt) {
  expectSameTokens(greedy(7), 1, /*ahead=*/1, {guesses});
  expectSameTokens(sampled(7), 4, /*ahead=*/4, {2});
  expectSameTokens(sampled(12), 3, /*ahead=*/4, {guesses, /*isAuto=*/true});
}

TEST_F(DeviceSpeculationTest, TheContextEndsInsideOfGuesses) {
  GenerateOptions options = sampled(25);
  options.overflow = OverflowPolicy::Slide;
  expectSameTokens(options, 3, /*ahead=*/4, {guesses});
  options.overflow = OverflowPolicy::Stop;
  expectSameTokens(options, 4, /*ahead=*/1, {guesses, /*isAuto=*/true});
}

TEST_F(DeviceSpeculationTest, SequencesEndInsideOfGuesses) {
  std::vector<Ids> whole;
  {
    auto executor = unwrap(open(weights, 4));
    PlanModel model(*executor);
    whole = tokensOf(run(model, sampled(9), nullptr));
  }
  // The device knows eight of the ids that end a row, the host knows all.
  for (int unknown : {0, 8}) {
    GenerateOptions options = sampled(9);
    options.eosIds = std::vector<int32_t>(unknown, 0);
    for (size_t row = 1; row < 4; ++row)
      options.eosIds.push_back(whole[row][2 * row]);
    expectSameTokens(options, 3, /*ahead=*/4, {guesses});
  }
}

TEST_F(DeviceSpeculationTest, CountsSayWhatBecameOfGuesses) {
  auto executor = unwrap(open(weights, 1)), twin = unwrap(open(weights, 1));
  PlanModel model(*executor), twinModel(*twin);
  const GenerateOptions options = sampled(10);
  ModelDraft self(twinModel, options.sampling, twin.get());
  // One token of the prompt, then two passes of four, then one of the last token.
  const SpeculationCounts counts = run(model, options, &self)[0].speculation;
  EXPECT_EQ(counts.passes, 3);
  EXPECT_EQ(counts.drafted, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(counts.accepted, (std::vector<int64_t>{2, 2, 2}));
}

TEST_F(DeviceSpeculationTest, GuessesFromTheTextAreThoseOfTheHost) {
  auto executor = unwrap(open(weights, 1));
  PlanModel model(*executor);
  NgramDraft ngram;
  GenerateOptions options = greedy(15);
  const std::vector<Generation> onDevice = run(model, options, &ngram);
  options.keepLogits = true;
  const std::vector<Generation> onHost = run(model, options, &ngram);
  int64_t accepted = 0;
  for (auto [a, b] : llvm::zip(onDevice, onHost)) {
    // Where the host does not guess, the device may guess right.
    ASSERT_GE(a.speculation.accepted.size(), b.speculation.accepted.size());
    for (auto [more, count] : llvm::zip(a.speculation.accepted, b.speculation.accepted)) {
      EXPECT_GE(more, count);
      accepted += count;
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(DeviceSpeculationTest, PretendedGuessesAreRightAsOftenAsWanted) {
  auto executor = unwrap(open(weights, 1));
  PlanModel model(*executor);
  NgramDraft ngram;
  const std::vector<Ids> wanted = tokensOf(run(model, greedy(15), nullptr));
  for (auto [acceptance, passes] : {std::pair(1.0, 4), std::pair(0.0, 14)}) {
    PretendedDraft draft(ngram, acceptance);
    Ids text = texts[0];
    llvm::append_range(text, wanted[0]);
    draft.know(text);
    EXPECT_EQ(run(model, greedy(15), &draft)[0].speculation.passes, passes) << acceptance;
  }
}

TEST_F(DeviceSpeculationTest, WrongGuessesStop) {
  RandomCheckpoint others(/*seed=*/99, /*layers=*/2);
  auto executor = unwrap(open(weights, 1)), other = unwrap(open(others, 1));
  PlanModel model(*executor), otherModel(*other);
  ModelDraft stranger(otherModel, {.greedy = true}, other.get());
  GenerateOptions options = greedy(20);
  options.overflow = OverflowPolicy::Slide;
  Ids text = texts[0];
  llvm::append_range(text, run(model, options, nullptr)[0].newTokens);
  PretendedDraft wrong(stranger, 0);
  wrong.know(text);
  const SpeculationCounts counts = run(model, options, &wrong, {guesses, /*isAuto=*/true})[0].speculation;
  EXPECT_EQ(counts.passes, 19);
  EXPECT_EQ(counts.drafted, (std::vector<int64_t>{7, 2}));
}

} // namespace
} // namespace kiln
