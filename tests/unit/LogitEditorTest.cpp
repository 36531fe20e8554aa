#include "FakeModel.h"

#include "runtime/generation/Generator.h"

namespace kiln {
namespace {

TEST(LogitEditorTest, EditsInOrder) {
  LogitEditor editor({.repetitionPenalty = 2, .presencePenalty = 0.5, .bias = {{0, 1.0f}, {4, -3.0f}}}, {0, 1}, {2});
  EXPECT_EQ(editor.edit({4, -4, 4, 4, 4}), (std::vector<float>{3, -8, 1.5, 4, 1}));
  editor.add(3);
  EXPECT_EQ(editor.edit({4, -4, 4, 4, 4}), (std::vector<float>{3, -8, 1.5, 1.5, 1}));
  EXPECT_TRUE(LogitOptions().isOff());
}

TEST(LogitEditorTest, TheWholeTextCountsWhenTheContextSlides) {
  GenerateOptions options;
  options.maxNewTokens = 30;
  options.overflow = OverflowPolicy::Slide;
  options.slideKeep = 3;
  options.sampling.greedy = true;
  options.logits.presencePenalty = 1000;
  FakeModel model;
  std::vector<Generation> results = unwrap(generate(model, nullptr, {Ids{1, 2, 3}, Ids{4}}, options));
  for (const Generation &result : results)
    EXPECT_EQ(std::set<int32_t>(result.newTokens.begin(), result.newTokens.end()).size(), 30u) << "a token came twice";
  // Guesses change nothing.
  NgramDraft ngram;
  options.draft = &ngram;
  std::vector<Generation> guessed = unwrap(generate(model, nullptr, {Ids{1, 2, 3}, Ids{4}}, options));
  for (auto [a, b] : llvm::zip(results, guessed))
    EXPECT_EQ(a.newTokens, b.newTokens);
}

} // namespace
} // namespace kiln
