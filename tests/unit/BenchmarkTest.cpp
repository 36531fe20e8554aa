#include "runtime/measure/Benchmark.h"

#include "support/text/Json.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Percentiles, AreSamples) {
  std::vector<double> samples;
  for (int i = 100; i > 0; --i)
    samples.push_back(i);
  for (auto [share, wanted] : {std::pair(0.0, 1), {0.5, 51}, {0.9, 91}, {0.99, 100}, {1.0, 100}})
    EXPECT_EQ(percentileOf(samples, share), wanted);
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(percentileOf({7}, 0.99), 7);
  EXPECT_EQ(percentileOf({}, 0.5), 0);
}

TEST(Percentiles, ComeWithEverySample) {
  json::Object times;
  addTimes(times, {});
  EXPECT_TRUE(times.empty());
  addTimes(times, {3e-6, 1e-6, 2e-6});
  EXPECT_EQ(jsonText(std::move(times)),
            R"({"max_us":3,"median_us":2,"min_us":1,"p90_us":3,"p99_us":3,"samples_s":[3e-06,1e-06,2e-06]})");
}

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
