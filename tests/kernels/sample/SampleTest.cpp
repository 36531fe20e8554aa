// sample/sample.cuh: it chooses the tokens of runtime/generation/sampling/Sampler.h, and updates the rows.

#include "kernels/KernelRunner.h"
#include "kernels/Variant.h"
#include "runtime/generation/sampling/Sampler.h"
#include "sample/state.cuh"
#include "support/Diagnostic.h"
#include "support/Random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kiln {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The kernel for one vocabulary, and a batch's memory.
class SampleKernel {
public:
  SampleKernel(int vocabulary, int pitch, int threads, int group = 128)
      : vocabulary(vocabulary), pitch(pitch), threads(threads), group(group),
        groups(static_cast<int>(llvm::divideCeil(vocabulary, group))), listed(std::min(threads, 512)),
        variant("sample", "sample", DType::F32,
                {{"kVocabulary", std::to_string(vocabulary)},
                 {"kPitch", std::to_string(pitch)},
                 {"kGroup", std::to_string(group)},
                 {"kThreads", std::to_string(threads)}}) {}

  void setRows(size_t batch, const SamplingParams &params, int32_t remaining = 1 << 20, int32_t context = 1 << 20) {
    logits.assign(batch * pitch, std::numeric_limits<float>::quiet_NaN());
    tokens.assign(batch, 7);
    positions.assign(batch, 3);
    rows.clear();
    for (uint64_t i = 0; i < batch; ++i)
      rows.push_back({.sequence = i + 5, .position = 40 + i, .remaining = remaining, .isFinished = 0});
    best.assign(2 * batch * groups, 0x5a5a5a5a5a5a5a5a);
    launches.assign(batch, 0);
    ring.assign(batch * 4, 0);
    text.assign(batch * textPitch, 0);
    recent.assign(batch * kRecent, 0);
    arrivals.assign(batch, 0);
    settings.assign(batch, {.seed = params.seed,
                            .topP = samplingTopP(params),
                            .scale = samplingScale(params),
                            .isGreedy = params.greedy,
                            .topK = static_cast<int32_t>(params.topK),
                            .context = context,
                            .stopCount = 0,
                            .stopTokens = {},
                            .mostExponent = samplingMostExponent(params)});
  }

  ArrayRef<float> row(size_t b) const { return ArrayRef(logits).slice(b * pitch, vocabulary); }
  float &logit(size_t b, size_t id) { return logits[b * pitch + id]; }

  size_t wayCount() const { return runner->wayCount(); }

  void launch(size_t way = 0) {
    auto array = [](auto &elements) {
      return KernelArgument{elements.data(), elements.size() * sizeof(elements[0]), /*isArray=*/true};
    };
    Error error = runner->launch(
        {"sample.cu",
         variant.text(),
         "sample_rows",
         {static_cast<uint32_t>(llvm::divideCeil(groups, threads / 32)), static_cast<uint32_t>(rows.size())},
         static_cast<uint32_t>(threads),
         0,
         {array(logits), array(tokens), array(positions), array(settings), array(rows), array(launches), array(ring),
          array(text), array(recent), array(best), array(arrivals)}},
        way);
    ASSERT_FALSE(bool(error)) << takeDiagnostics(std::move(error)).front().message;
    for (uint32_t count : arrivals)
      ASSERT_EQ(count, 0u);
  }

  /// The token that the last launch has written into a row's ring.
  int32_t inRing(size_t b) const {
    uint64_t entry = ring[b * 4 + launches[b] % 4];
    EXPECT_EQ(entry >> 32, launches[b]);
    return static_cast<int32_t>(entry);
  }

  static constexpr int textPitch = 256;
  const int vocabulary, pitch, threads, group, groups;
  const int listed; ///< the most tokens in the kernel's list
  std::vector<float> logits;
  std::vector<int32_t> tokens, positions, text, recent;
  std::vector<SamplingRow> rows;
  std::vector<uint64_t> best, ring;
  std::vector<uint32_t> launches, arrivals;
  std::vector<SamplingSettings> settings;

private:
  Variant variant;
  EmulatedMemory memory;
  std::unique_ptr<KernelRunner> runner = cantFail(makeKernelRunner(memory));
};

/// Fills rows with logits: flat ones, steep ones, many equal ones, and some masked ones.
void fill(SampleKernel &kernel, uint32_t seed) {
  for (size_t b = 0; b < kernel.rows.size(); ++b)
    for (int id = 0; id < kernel.vocabulary; ++id) {
      PhiloxBlock words = philox4x32({static_cast<uint32_t>(id), static_cast<uint32_t>(b), seed, 0}, 11);
      float value = normalFloat(words[0]) * (b % 3 == 0 ? 4 : 0.5f);
      if (b % 2 == 1)
        value = std::round(value * 4) / 4;
      kernel.logit(b, id) = words[1] % 50 == 0 ? -infinity : value;
    }
}

/// Whether all tokens that may be among the k most probable of a row fit in the kernel's list.
bool isTopKListed(const SampleKernel &kernel, size_t b, int64_t k) {
  if (k > std::min(kernel.groups, kernel.listed))
    return false;
  ArrayRef<float> row = kernel.row(b);
  std::vector<float> largest;
  for (int first = 0; first < kernel.vocabulary; first += kernel.group)
    largest.push_back(*llvm::max_element(row.slice(first, std::min(kernel.group, kernel.vocabulary - first))));
  llvm::sort(largest, std::greater<>());
  float bound = largest[static_cast<size_t>(k) - 1];
  return llvm::count_if(row, [=](float logit) { return logit >= bound; }) <= kernel.listed;
}

/// Launches and compares with the host, row by row.
void launchAndCompare(SampleKernel &kernel, const SamplingParams &params, size_t way) {
  const std::vector<SamplingRow> before = kernel.rows;
  const std::vector<int32_t> positions = kernel.positions;
  ASSERT_NO_FATAL_FAILURE(kernel.launch(way));
  Sampler sampler(params);
  for (size_t b = 0; b < kernel.rows.size(); ++b) {
    int32_t wanted = cantFail(sampler.choose(kernel.row(b), b + 5, before[b].position));
    EXPECT_EQ(kernel.tokens[b], wanted) << "row " << b << " position " << before[b].position << " top-k " << params.topK
                                        << " top-p " << params.topP << " min-p " << params.minP << " temperature "
                                        << params.temperature;
    EXPECT_EQ(kernel.inRing(b), wanted);
    EXPECT_EQ(kernel.recent[b * kRecent + kernel.launches[b] % kRecent], wanted);
    EXPECT_EQ(kernel.text[b * SampleKernel::textPitch + positions[b] + 1], wanted);
    EXPECT_EQ(kernel.rows[b].position, before[b].position + 1);
    EXPECT_EQ(kernel.positions[b], positions[b] + 1);
  }
}

void expectTokensOfSampler(SampleKernel &kernel, const SamplingParams &params) {
  for (size_t way : {size_t(0), kernel.wayCount() - 1}) {
    kernel.setRows(4, params);
    for (uint32_t step = 0; step < 3; ++step) {
      fill(kernel, step);
      ASSERT_NO_FATAL_FAILURE(launchAndCompare(kernel, params, way));
    }
  }
}

void expectTokensOfSamplerForAllSettings(SampleKernel &kernel, ArrayRef<int64_t> topKs) {
  expectTokensOfSampler(kernel, {.greedy = true});
  for (double temperature : {0.7, 3.0, 1e-300})
    for (int64_t topK : topKs)
      for (double topP : {1.0, 0.9, 1e-9})
        for (double minP : {0.0, 0.05})
          expectTokensOfSampler(kernel,
                                {.temperature = temperature, .topK = topK, .topP = topP, .minP = minP, .seed = 42});
}

TEST(SampleKernelTest, ChoosesTheTokensOfTheHost) {
  SampleKernel kernel(4001, 4016, 64);
  expectTokensOfSamplerForAllSettings(kernel, {0, 1, 20, 32, 33, 4000, 5000});
  // Top-k uses the list for one of these rows, and histograms for another.
  EXPECT_TRUE(isTopKListed(kernel, 0, 20) && !isTopKListed(kernel, 1, 32));
}

TEST(SampleKernelTest, GroupsCanHaveSeveralLogitsOfALaneApart) {
  SampleKernel kernel(4001, 4002, 32, 256);
  expectTokensOfSamplerForAllSettings(kernel, {0, 8, 40});
  EXPECT_TRUE(isTopKListed(kernel, 0, 8) && !isTopKListed(kernel, 1, 8));
}

TEST(SampleKernelTest, ChoosesTheTokensOfTheHostOfAWholeVocabulary) {
  SampleKernel asInPlans(50257, 50257, 1024);
  expectTokensOfSampler(asInPlans, {.topK = 50, .topP = 0.95, .seed = 1});
  EXPECT_TRUE(isTopKListed(asInPlans, 0, 50));
  expectTokensOfSampler(asInPlans, {.temperature = 1.1, .seed = 3});
  SampleKernel padded(50257, 50304, 1024);
  expectTokensOfSampler(padded, {.temperature = 1.2, .topP = 0.9, .seed = 2});
  expectTokensOfSampler(padded, {.temperature = 0.8, .minP = 0.1, .seed = 4});
}

TEST(SampleKernelTest, ASmallVocabularyLeavesThreadsIdle) {
  SampleKernel kernel(5, 5, 64);
  for (int64_t topK : {0, 1, 3})
    for (double topP : {1.0, 0.8})
      for (double minP : {0.0, 0.5, 1.0})
        expectTokensOfSampler(kernel, {.topK = topK, .topP = topP, .minP = minP, .seed = 9});
}

TEST(SampleKernelTest, TiesGoToTheLowestId) {
  SampleKernel kernel(1009, 1009, 128);
  kernel.setRows(1, {.greedy = true});
  for (int id = 0; id < 1009; ++id)
    kernel.logit(0, id) = id % 300 == 299 ? 1.5f : -0.0f;
  kernel.launch();
  EXPECT_EQ(kernel.tokens[0], 299);
  // Equal logits everywhere, too many for the list; and equal logits that all fit in it.
  for (int distance : {1, 10}) {
    kernel.setRows(1, {.topK = 3, .seed = 1});
    std::set<int32_t> seen;
    for (int step = 0; step < 60; ++step) {
      for (int id = 0; id < 1009; ++id)
        kernel.logit(0, id) = id % distance != 0 ? -1.0f : id % 2 == 0 ? 0.0f : -0.0f;
      EXPECT_EQ(isTopKListed(kernel, 0, 3), distance == 10);
      kernel.launch();
      seen.insert(kernel.tokens[0]);
    }
    EXPECT_EQ(seen, (std::set<int32_t>{0, distance, 2 * distance}));
  }
}

TEST(SampleKernelTest, TiesAreKeptInTheOrderOfTheirIds) {
  // Six more probable tokens have higher ids than equal ones, of which those up to id 143 are kept.
  SampleKernel kernel(4001, 4004, 32, 256);
  const SamplingParams params = {.topK = 150, .seed = 6};
  kernel.setRows(1, params);
  for (int step = 0; step < 100; ++step) {
    for (int id = 0; id < 4001; ++id)
      kernel.logit(0, id) = id >= 250 && id < 256 ? 1.0f : 0.0f;
    ASSERT_NO_FATAL_FAILURE(launchAndCompare(kernel, params, 0));
  }
}

TEST(SampleKernelTest, RowsMayBeMaskedButForAFewTokens) {
  SampleKernel kernel(4001, 4016, 64);
  for (int64_t topK : {0, 2, 5, 30, 3000})
    for (double topP : {1.0, 0.7, 0.5}) {
      const SamplingParams params = {.topK = topK, .topP = topP, .seed = 8};
      kernel.setRows(4, params);
      for (int step = 0; step < 8; ++step) {
        for (size_t b = 0; b < 4; ++b)
          for (int id = 0; id < 4001; ++id)
            kernel.logit(b, id) = -infinity;
        kernel.logit(0, 4000) = 3;               // one token
        for (int id : {3, 700, 701, 3999, 4000}) // k of them, more, or fewer
          kernel.logit(1, id) = static_cast<float>(id % 3) * 0.25f;
        for (int id = 500; id < 600; ++id) // more than the list holds
          kernel.logit(2, id) = -7;
        for (int id = 1000; id < 1004; ++id) // half of them is half of the weight
          kernel.logit(3, id) = 70;
        ASSERT_NO_FATAL_FAILURE(launchAndCompare(kernel, params, static_cast<size_t>(step) % kernel.wayCount()));
      }
    }
}

TEST(SampleKernelTest, TopPOfAFewTokensIsThatOfAllTheirWeights) {
  // Nine of ten tokens have almost no weight each, but together as much as the others. The list has only those others.
  SampleKernel kernel(4001, 4016, 64);
  for (double topP : {0.3, 0.49, 0.55, 0.9}) {
    const SamplingParams params = {.topP = topP, .seed = 4};
    kernel.setRows(2, params);
    for (int step = 0; step < 20; ++step) {
      for (int id = 0; id < 4001; ++id) {
        kernel.logit(0, id) = id % 100 == 7 ? 0.0f : std::log(0.01f);
        kernel.logit(1, id) = id % 100 == 7 ? static_cast<float>(id) * 1e-5f : std::log(0.01f);
      }
      ASSERT_NO_FATAL_FAILURE(launchAndCompare(kernel, params, 0));
    }
  }
}

TEST(SampleKernelTest, RowsHaveSettingsOfTheirOwn) {
  const std::vector<SamplingParams> all = {{.greedy = true},
                                           {.temperature = 0.7, .topK = 5, .seed = 3},
                                           {.seed = 4},
                                           {.topP = 0.6, .seed = 4},
                                           {.temperature = 1.5, .minP = 0.2, .seed = 5}};
  SampleKernel kernel(2003, 2003, 64), one(2003, 2003, 64);
  kernel.setRows(all.size(), {});
  for (size_t b = 0; b < all.size(); ++b) {
    one.setRows(1, all[b]);
    kernel.settings[b] = one.settings[0];
  }
  fill(kernel, 1);
  ASSERT_NO_FATAL_FAILURE(kernel.launch());
  for (size_t b = 0; b < all.size(); ++b)
    EXPECT_EQ(kernel.tokens[b], cantFail(Sampler(all[b]).choose(kernel.row(b), b + 5, b + 40))) << b;
}

TEST(SampleKernelTest, AFinishedRowStays) {
  SampleKernel kernel(50, 64, 32);
  kernel.setRows(4, {.greedy = true}, /*remaining=*/2, /*context=*/6);
  kernel.settings[0].stopCount = 2;
  kernel.settings[0].stopTokens[1] = 9;
  fill(kernel, 0);
  kernel.logit(0, 9) = 100;         // a stop token
  kernel.logit(1, 8) = 100;         // may choose one more token
  kernel.positions[2] = 5;          // the context's last position
  kernel.rows[3].isFinished = true; // was never started
  kernel.launch();
  EXPECT_EQ(kernel.inRing(0), 9);
  EXPECT_TRUE(kernel.rows[0].isFinished);
  EXPECT_EQ(kernel.inRing(1), 8);
  EXPECT_FALSE(kernel.rows[1].isFinished);
  EXPECT_GE(kernel.inRing(2), 0);
  EXPECT_TRUE(kernel.rows[2].isFinished);
  EXPECT_EQ(kernel.positions[2], 5);
  EXPECT_EQ(kernel.inRing(3), kNoToken);
  EXPECT_EQ(kernel.tokens[3], 7);
  EXPECT_EQ(kernel.positions[3], 3);
  kernel.launch();
  EXPECT_EQ(kernel.inRing(0), kNoToken);
  EXPECT_EQ(kernel.positions[0], 4);
  EXPECT_EQ(kernel.inRing(1), 8);
  EXPECT_TRUE(kernel.rows[1].isFinished);
  kernel.launch();
  EXPECT_EQ(kernel.inRing(1), kNoToken);
}

TEST(SampleKernelTest, LogitsThatAreNoNumbersEndTheRow) {
  SampleKernel kernel(50, 64, 32);
  kernel.setRows(4, {.seed = 1});
  fill(kernel, 0);
  kernel.logit(0, 49) = std::numeric_limits<float>::quiet_NaN();
  kernel.logit(1, 0) = infinity;
  for (int id = 0; id < 50; ++id)
    kernel.logit(2, id) = -infinity;
  kernel.launch();
  EXPECT_EQ(kernel.inRing(0), kNotFinite);
  EXPECT_EQ(kernel.inRing(1), kNotFinite);
  EXPECT_EQ(kernel.inRing(2), kAllMasked);
  EXPECT_GE(kernel.inRing(3), 0);
  for (size_t b = 0; b < 3; ++b) {
    EXPECT_TRUE(kernel.rows[b].isFinished);
    EXPECT_EQ(kernel.tokens[b], 0);
  }
}

} // namespace
} // namespace kiln
