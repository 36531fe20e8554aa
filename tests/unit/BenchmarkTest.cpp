#include "runtime/measure/Benchmark.h"

namespace kiln {
namespace {

TEST(SampleIds, AreBelowTheVocabulary) {
  EXPECT_EQ(sampleIds(5, 3), (std::vector<int32_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(sampleIds(2, 50257), (std::vector<int32_t>{0, 1}));
}

TEST(CallShape, OfDecodeIsOneTokenAtAPosition) {
  CallShape decode{Entry::Decode, 8, 64}, prefill{Entry::Prefill, 1, 64};
  EXPECT_EQ(decode.str(), "decode B=8 position=64");
  EXPECT_EQ(decode.tokens(), 1);
  EXPECT_EQ(decode.position(), 64);
  EXPECT_EQ(prefill.str(), "prefill B=1 T=64");
  EXPECT_EQ(prefill.tokens(), 64);
  EXPECT_EQ(prefill.position(), 0);
}

} // namespace
} // namespace kiln
