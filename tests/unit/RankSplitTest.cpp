#include "TestSupport.h"

#include "support/model/RankSplit.h"

namespace kiln {
namespace {

/// The runs of all ranks, as `from>to+count`.
std::vector<std::string> runs(const RankSplit &split, int64_t extent) {
  EXPECT_EQ(split.problem(extent), "");
  std::vector<std::string> all;
  for (int64_t rank = 0; rank < split.ranks; ++rank) {
    std::string text;
    for (RankSplit::Run run : split.runs(extent, rank))
      text += formatv("{0}{1}>{2}+{3}", text.empty() ? "" : " ", run.from, run.to, run.count).str();
    all.push_back(text);
  }
  return all;
}

using Texts = std::vector<std::string>;

TEST(RankSplitTest, TheFirstRanksGetOneMore) {
  EXPECT_EQ(runs({.ranks = 2}, 25), (Texts{"0>0+13", "13>0+12"}));
  EXPECT_EQ(runs({.ranks = 4}, 25), (Texts{"0>0+7", "7>0+6", "13>0+6", "19>0+6"}));
  EXPECT_EQ(runs({.ranks = 3}, 3), (Texts{"0>0+1", "1>0+1", "2>0+1"}));
  EXPECT_EQ((RankSplit{.ranks = 2}.room(25)), 13);
  EXPECT_EQ((RankSplit{.ranks = 4}.room(25)), 7);
}

TEST(RankSplitTest, UnitsStayTogetherInEveryPart) {
  // Query, key and value of 3 heads of 8 columns.
  RankSplit split = {.ranks = 2, .unit = 8, .parts = 3};
  EXPECT_EQ(split.room(72), 48);
  EXPECT_EQ(runs(split, 72), (Texts{"0>0+16 24>16+16 48>32+16", "16>0+8 40>16+8 64>32+8"}));
}

TEST(RankSplitTest, ExtentsThatCannotBeDealtOut) {
  EXPECT_EQ((RankSplit{.ranks = 4}.problem(3)), "expected at least a unit for each of 4 ranks, got 3");
  EXPECT_EQ((RankSplit{.ranks = 2, .unit = 8}.problem(20)),
            "expected an extent of 1 parts with whole units of 8, got 20");
  EXPECT_EQ((RankSplit{.ranks = 2, .parts = 3}.problem(8)),
            "expected an extent of 3 parts with whole units of 1, got 8");
  EXPECT_EQ((RankSplit{.ranks = 1, .unit = 0}.problem(8)),
            "expected 2 ranks or more, and unit and parts of 1 or more, got ranks 1, unit 0 and parts 1");
  EXPECT_NE((RankSplit{.ranks = 2}.problem(0)), "");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((RankSplit{.ranks = 2}.room(most)), most / 2 + 1);
}

} // namespace
} // namespace kiln
