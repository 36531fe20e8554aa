#include "FakeModel.h"

#include "runtime/generation/ContinuedModel.h"
#include "runtime/generation/Generator.h"

namespace kiln {
namespace {

TEST(ContinuedModelTest, OnlyNewTokensOfAPromptAreEvaluated) {
  FakeModel base;
  ContinuedModel model(base);
  std::vector<std::vector<float>> logits(2);
  expectSuccess(model.prefill({Ids{1, 2, 3}, Ids{4, 5}}, logits));
  expectSuccess(model.decode({6, idleRow}, logits));
  base.decoded = 0;
  // The first row goes on, the second stays.
  expectSuccess(model.prefill({Ids{1, 2, 3, 6, 7, 8}, Ids{}}, logits));
  EXPECT_EQ(logits[0], logitsAfter({1, 2, 3, 6, 7, 8}, 50));
  EXPECT_EQ(base.decoded, 2);
  EXPECT_EQ(base.prefilled, (std::vector<Ids>{{1, 2, 3}, {4, 5}}));
  // Where the texts part, what follows is forgotten; the whole prompt is there, but its last token's logits are not.
  expectSuccess(model.prefill({Ids{1, 2, 3, 9}, Ids{4, 5}}, logits));
  EXPECT_EQ(logits[0], logitsAfter({1, 2, 3, 9}, 50));
  EXPECT_EQ(logits[1], logitsAfter({4, 5}, 50));
  EXPECT_EQ(base.prefilled.size(), 2u);
  EXPECT_EQ(base.rows, (std::vector<Ids>{{1, 2, 3, 9}, {4, 5}}));
}

TEST(ContinuedModelTest, OtherPromptsAreEvaluatedAsAWhole) {
  FakeModel base;
  ContinuedModel model(base);
  std::vector<std::vector<float>> logits(2);
  expectSuccess(model.prefill({Ids{1, 2, 3}, Ids{4, 5, 6}}, logits));
  expectSuccess(model.prefill({Ids{2, 1}, Ids{4, 7, 8, 9}}, logits));
  EXPECT_EQ(base.decoded, 0);
  EXPECT_EQ(base.rows, (std::vector<Ids>{{2, 1}, {4, 7, 8, 9}}));
  EXPECT_EQ(logits[1], logitsAfter({4, 7, 8, 9}, 50));
  // One row goes on and the other starts again, in one call.
  expectSuccess(model.prefill({Ids{2, 1, 3}, Ids{5}}, logits));
  EXPECT_EQ(logits[0], logitsAfter({2, 1, 3}, 50));
  EXPECT_EQ(logits[1], logitsAfter({5}, 50));
  EXPECT_EQ(base.decoded, 1);
}

TEST(ContinuedModelTest, AConversationIsAsIfEvaluatedAnew) {
  FakeModel base;
  ContinuedModel model(base);
  GenerateOptions options;
  options.maxNewTokens = 2;
  options.sampling = {.temperature = 0.8, .seed = 2};
  Ids text = {1, 2};
  for (int turn = 0; turn < 3; ++turn) {
    FakeModel fresh;
    Ids wanted = unwrap(generate(fresh, nullptr, {text}, options))[0].newTokens;
    EXPECT_EQ(unwrap(generate(model, nullptr, {text}, options))[0].newTokens, wanted);
    llvm::append_range(text, wanted);
    text.push_back(turn);
  }
  EXPECT_EQ(base.prefilled, (std::vector<Ids>{{1, 2}}));
}

} // namespace
} // namespace kiln
