#include "FakeModel.h"

#include "runtime/generation/UncachedModel.h"

namespace kiln {
namespace {

TEST(UncachedModelTest, EveryTokenEvaluatesItsSequenceAgain) {
  FakeModel base;
  UncachedModel model(base);
  std::vector<std::vector<float>> logits(2);
  expectSuccess(model.prefill({Ids{1, 2}, Ids{3}}, logits));
  EXPECT_EQ(logits[0], logitsAfter({1, 2}, 50));
  EXPECT_EQ(logits[1], logitsAfter({3}, 50));
  expectSuccess(model.decode({4, 5}, logits));
  EXPECT_EQ(logits[0], logitsAfter({1, 2, 4}, 50));
  EXPECT_EQ(logits[1], logitsAfter({3, 5}, 50));
  EXPECT_EQ(base.prefilled, (std::vector<Ids>{{1, 2}, {3}, {1, 2, 4}, {3, 5}}));
  EXPECT_EQ(base.decoded, 0);
}

TEST(UncachedModelTest, IdleRowsStayAndNewPromptsReplaceTheirRow) {
  FakeModel base;
  UncachedModel model(base);
  std::vector<std::vector<float>> logits(2);
  expectSuccess(model.prefill({Ids{1, 2}, Ids{3}}, logits));
  expectSuccess(model.decode({idleRow, 6}, logits));
  EXPECT_EQ(logits[0], logitsAfter({1, 2}, 50));
  EXPECT_EQ(logits[1], logitsAfter({3, 6}, 50));
  // Only the first row is restarted.
  expectSuccess(model.prefill({Ids{9}, Ids{}}, logits));
  expectSuccess(model.decode({7, 8}, logits));
  EXPECT_EQ(logits[0], logitsAfter({9, 7}, 50));
  EXPECT_EQ(logits[1], logitsAfter({3, 6, 8}, 50));
}

} // namespace
} // namespace kiln
