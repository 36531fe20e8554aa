// @verify: several tokens of each sequence in one pass, with the bits of @decode.

#include "runtime/RuntimeTest.h"

namespace kiln {
namespace {

constexpr int64_t guesses = 3;

class VerifyTest : public RuntimeTest, public testing::WithParamInterface<std::pair<const char *, int64_t>> {
protected:
  using Logits = std::vector<std::vector<std::vector<float>>>; ///< by row and token

  VerifyTest() : RuntimeTest(/*width=*/64, GetParam().first, GetParam().second, guesses) {
    entries.push_back(Entry::Verify);
  }

  const int64_t batch = std::min<int64_t>(GetParam().second, 3);
};

TEST_P(VerifyTest, LogitsHaveTheBitsOfDecode) {
  const std::vector<Ids> all = {{1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 11}, {12}};
  const std::vector<Ids> prompts(all.begin(), all.begin() + batch);
  auto executor = unwrap(open(weights, batch));
  PlanModel model(*executor);
  EXPECT_EQ(model.verifyTokens(), guesses + 1);
  // Of each pass: the tokens of the rows, and how many of them are kept.
  const std::vector<std::pair<std::vector<Ids>, std::vector<int64_t>>> passes = {
      {{{20, 21, 22, 23}, {24, 25, 26, 27}, {28, 29, 30, 31}}, {1, 4, 2}},
      {{{32, 33}, {34, 35, 36, 37}, {}}, {2, 3, 0}},
      {{{38}, {39, 40, 41, 42}, {43, 44, 45}}, {1, 1, 3}}};
  auto run = [&](bool isOneByOne) {
    Logits results;
    std::vector<std::vector<float>> first(batch);
    expectSuccess(model.prefill(prompts, first));
    std::vector<int64_t> lengths;
    for (const Ids &prompt : prompts)
      lengths.push_back(static_cast<int64_t>(prompt.size()));
    for (const auto &[tokens, kept] : passes) {
      const std::vector<Ids> own(tokens.begin(), tokens.begin() + batch);
      Logits logits(batch);
      expectSuccess(isOneByOne ? model.LanguageModel::verify(own, logits) : model.verify(own, logits));
      llvm::append_range(results, logits);
      for (int64_t row = 0; row < batch; ++row)
        lengths[row] += kept[row];
      model.truncate(lengths);
    }
    return results;
  };
  CountingDevice::Counts before = device->counts;
  const Logits together = run(/*isOneByOne=*/false);
  const int steps = device->counts.runs - before.runs;
  before = device->counts;
  EXPECT_EQ(together, run(/*isOneByOne=*/true));
  EXPECT_LT(steps, device->counts.runs - before.runs);
}

TEST_P(VerifyTest, AtTheEndOfTheContextTokensGoOneByOne) {
  Ids prompt(context - 3);
  for (int32_t i = 0; i < context - 3; ++i)
    prompt[i] = i;
  auto executor = unwrap(open(weights, 1));
  PlanModel model(*executor);
  auto run = [&](bool isOneByOne) {
    std::vector<std::vector<float>> first(1);
    Logits logits(1);
    expectSuccess(model.prefill(prompt, first));
    const std::vector<Ids> tokens = {{50, 51, 52}};
    expectSuccess(isOneByOne ? model.LanguageModel::verify(tokens, logits) : model.verify(tokens, logits));
    return logits;
  };
  EXPECT_EQ(run(false), run(true));
}

TEST_P(VerifyTest, SpeculationGivesTheTokensOfAStreamOnTheDevice) {
  const std::vector<Ids> all = {{1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 11}, {12}, {5, 5, 5}};
  for (bool greedy : {true, false}) {
    const SamplingParams sampling = {.greedy = greedy, .temperature = 1.3, .seed = 17};
    GenerateOptions options;
    options.maxNewTokens = 18; // one sequence slides
    options.overflow = OverflowPolicy::Slide;
    options.sampling = sampling;
    auto executor = unwrap(open(weights, batch)), other = unwrap(open(weights, batch));
    PlanModel model(*executor), twin(*other);
    std::vector<Ids> wanted;
    for (const Generation &generation : unwrap(generate(model, nullptr, all, options)))
      wanted.push_back(generation.newTokens);
    ModelDraft self(twin, sampling);
    NgramDraft ngram;
    options.draft = greedy ? static_cast<Draft *>(&ngram) : &self;
    options.draftLength.most = guesses;
    std::vector<Generation> results = unwrap(generate(model, nullptr, all, options));
    int64_t passes = 0;
    for (const auto &[result, tokens] : llvm::zip(results, wanted)) {
      EXPECT_EQ(result.newTokens, tokens);
      passes += result.speculation.passes;
    }
    EXPECT_LE(passes, static_cast<int64_t>(all.size()) * (greedy ? 17 : 7));
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, VerifyTest,
                         testing::Values(std::pair("f32", 1), std::pair("bf16", 1), std::pair("bf16", 8),
                                         std::pair("f16", 3)),
                         [](const auto &info) {
                           return std::string(info.param.first) + "_" + std::to_string(info.param.second);
                         });

} // namespace
} // namespace kiln
