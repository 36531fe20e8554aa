// What each primitive of templates/device/ means, checked under every schedule.

#include "emulated/Fixture.h"

#include "support/DType.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace kiln {
namespace {

class Primitives : public EmulatedTest {
protected:
  /// Launches a kernel of kernels/primitives.cu.
  template <class... Args>
  void run(StringRef kernel, Dim3 grid, uint32_t block, const LaunchOptions &options, Args... args) {
    Error error = launch(kernelLibrary("primitives").kernel(kernel), grid, block, options, args...);
    EXPECT_EQ(printed(std::move(error)), "");
  }
};

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<float> iota(size_t size, float first = 0) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = first + static_cast<float>(i);
  return values;
}

//===----------------------------------------------------------------------===//
// index.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, Coordinates) {
  struct Coordinates {
    uint32_t thread, threads, blockX, blockY, blockZ, blocksX, blocksY, blocksZ, lane, warp;
  };
  const Dim3 grid = {3, 4, 5};
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<Coordinates>(grid.count() * 70);
    run("coordinates", grid, 70, options, out);
    for (uint32_t i = 0; i < out.size; ++i) {
      const Coordinates &c = out[i];
      uint32_t thread = i % 70, block = i / 70;
      EXPECT_EQ(c.thread, thread);
      EXPECT_EQ(c.lane, thread % 32);
      EXPECT_EQ(c.warp, thread / 32);
      EXPECT_EQ(c.threads, 70u);
      EXPECT_EQ(c.blockX, block % 3);
      EXPECT_EQ(c.blockY, block / 3 % 4);
      EXPECT_EQ(c.blockZ, block / 12);
      EXPECT_EQ(c.blocksX, 3u);
      EXPECT_EQ(c.blocksY, 4u);
      EXPECT_EQ(c.blocksZ, 5u);
    }
  });
}

//===----------------------------------------------------------------------===//
// numeric.cuh
//===----------------------------------------------------------------------===//

/// Floats around everything that rounding has to decide: every 16-bit value of either type, its neighbours,
/// the middle between it and the next, and the middle's neighbours.
std::vector<float> roundingCases() {
  std::vector<float> cases;
  auto around = [&](float value) {
    for (float x : {value, std::nextafter(value, inf), std::nextafter(value, -inf)})
      cases.push_back(x);
  };
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    for (auto decode : {fromBF16, fromF16}) {
      float value = decode(static_cast<uint16_t>(bits)), next = decode(static_cast<uint16_t>(bits + 1));
      if (std::isnan(value))
        continue;
      around(value);
      if (std::isfinite(value) && std::isfinite(next))
        around(static_cast<float>((static_cast<double>(value) + next) / 2));
    }
  for (float value : {65520.0f, -65520.0f, nan, -nan, 3.4e38f, 1e-45f})
    around(value);
  cases.resize(llvm::alignTo(cases.size(), 128));
  return cases;
}

void expectRoundTrip(const std::vector<float> &in, const uint16_t *stored, const float *back, uint16_t (*encode)(float),
                     float (*decode)(uint16_t)) {
  size_t wrong = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    uint16_t expected = std::isnan(in[i]) ? 0x7fff : encode(in[i]); // the GPU has one NaN
    bool backIsRight =
        std::isnan(in[i]) ? std::isnan(back[i]) : std::memcmp(&back[i], std::array{decode(expected)}.data(), 4) == 0;
    if ((stored[i] != expected || !backIsRight) && ++wrong < 10)
      ADD_FAILURE() << "of " << in[i] << ": expected " << expected << ", got " << stored[i] << ", back " << back[i];
  }
}

TEST_F(Primitives, FromFloatRoundsToNearestEvenAndToFloatIsExact) {
  std::vector<float> cases = roundingCases();
  auto in = bufferOf(cases);
  auto stored = buffer<uint16_t>(cases.size());
  auto back = buffer<float>(cases.size());
  uint32_t blocks = static_cast<uint32_t>(cases.size() / 128);
  run("round_trip_bf16", {blocks}, 128, {}, in, stored, back);
  expectRoundTrip(cases, stored.data, back.data, toBF16, fromBF16);
  run("round_trip_f16", {blocks}, 128, {}, in, stored, back);
  expectRoundTrip(cases, stored.data, back.data, toF16, fromF16);
}

TEST_F(Primitives, PairsHaveTheFirstValueInTheLowerHalf) {
  auto in = bufferOf<float>({1.5f, -2.25f});
  auto bf16Word = buffer<uint32_t>(1), f16Word = buffer<uint32_t>(1);
  auto back = buffer<float>(4);
  run("pairs", {1}, 1, {}, in, bf16Word, f16Word, back);
  EXPECT_EQ(bf16Word[0], toBF16(1.5f) | uint32_t{toBF16(-2.25f)} << 16);
  EXPECT_EQ(f16Word[0], toF16(1.5f) | uint32_t{toF16(-2.25f)} << 16);
  EXPECT_EQ(back.copy(), (std::vector<float>{1.5f, -2.25f, 1.5f, -2.25f}));
}

//===----------------------------------------------------------------------===//
// vec.cuh
//===----------------------------------------------------------------------===//

/// For widths 1, 2, 4, 8: V values, then at offset 8 their doubles; nothing else is touched.
template <class T> void expectCopied(ArrayRef<T> out, function_ref<float(T)> decode) {
  for (size_t width = 1, at = 0; width <= 8; width *= 2, at += 16)
    for (size_t i = 0; i < 8; ++i) {
      float plain = decode(out[at + i]), doubled = decode(out[at + 8 + i]);
      EXPECT_TRUE(i < width ? plain == static_cast<float>(i + 1) : std::isnan(plain)) << width << " " << i;
      EXPECT_TRUE(i < width ? doubled == static_cast<float>(2 * i + 2) : std::isnan(doubled)) << width << " " << i;
    }
}

TEST_F(Primitives, LoadsAndStoresMoveVElements) {
  std::vector<float> values = iota(8, 1);
  std::vector<uint16_t> bf16s, f16s;
  for (float value : values) {
    bf16s.push_back(toBF16(value));
    f16s.push_back(toF16(value));
  }
  auto floats = buffer<float>(64);
  run("copy_float", {1}, 1, {}, bufferOf(values), floats);
  expectCopied<float>(floats.copy(), [](float x) { return x; });
  auto halves = buffer<uint16_t>(64);
  run("copy_bf16", {1}, 1, {}, bufferOf(bf16s), halves);
  expectCopied<uint16_t>(halves.copy(), fromBF16);
  auto otherHalves = buffer<uint16_t>(64);
  run("copy_f16", {1}, 1, {}, bufferOf(f16s), otherHalves);
  expectCopied<uint16_t>(otherHalves.copy(), fromF16);
}

TEST_F(Primitives, VecArithmeticIsElementwise) {
  const std::vector<float> a = {1, 2, -3, 0.5f}, b = {4, 5, 6, -0.25f};
  std::vector<float> both = a;
  both.insert(both.end(), b.begin(), b.end());
  auto out = buffer<float>(66);
  run("arithmetic", {1}, 1, {}, bufferOf(both), out);
  float (*expected[])(float,
                      float) = {[](float x, float y) { return x + y; }, [](float x, float y) { return x - y; },
                                [](float x, float y) { return x * y; }, [](float x, float y) { return x / y; },
                                [](float x, float) { return x + 2; },   [](float x, float) { return x - 2; },
                                [](float x, float) { return x * 2; },   [](float x, float) { return x / 2; },
                                [](float x, float) { return 2 + x; },   [](float x, float) { return 2 - x; },
                                [](float x, float) { return 2 * x; },   [](float x, float) { return 2 / x; },
                                [](float x, float y) { return x + y; }, [](float x, float y) { return x * y; },
                                [](float x, float) { return x * x; },   [](float x, float y) { return x - 2 * y; }};
  for (size_t f = 0; f < std::size(expected); ++f)
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(out[4 * f + i], expected[f](a[i], b[i])) << "result " << f;
  EXPECT_EQ(out[64], 0.5f);
  EXPECT_EQ(out[65], 2.0f);
}

//===----------------------------------------------------------------------===//
// math.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, FunctionsAreAccurate) {
  std::vector<float> in = {0.0f, 1e-6f, 0.1f, 0.5f, 1.0f, 2.0f, 3.5f, 7.0f, 20.0f, 60.0f};
  for (size_t i = in.size(); i-- > 0;)
    in.push_back(-in[i]);
  in.resize(32, 1.0f);
  double (*expected[])(double) = {
      [](double x) { return std::exp(x); },
      [](double x) { return std::exp2(x); },
      [](double x) { return std::log(x); },
      [](double x) { return 1 / std::sqrt(x); },
      [](double x) { return std::tanh(x); },
      [](double x) { return std::erf(x); },
      [](double x) { return x * x + 0.5; },
      [](double x) { return std::min(x, 0.5); },
      [](double x) { return std::max(x, 0.5); },
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
      [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); },
      [](double x) { return std::max(x, 0.0); },
      [](double x) { return 1 / x; }};
  constexpr size_t functions = std::size(expected);
  auto out = buffer<float>(2 * functions * 32);
  run("functions", {1}, 32, {}, bufferOf(in), out);
  for (size_t f = 0; f < functions; ++f)
    for (size_t i = 0; i < 32; ++i) {
      double right = expected[f](in[i]);
      float scalar = out[f * 32 + i], vector = out[(functions + f) * 32 + i];
      if (std::isnan(right) || std::isinf(right)) {
        EXPECT_EQ(std::isnan(scalar), std::isnan(right)) << "function " << f << " of " << in[i];
        continue;
      }
      EXPECT_NEAR(scalar, right, 2e-6 * std::abs(right) + 1e-7) << "function " << f << " of " << in[i];
      EXPECT_EQ(scalar, vector) << "function " << f << " of " << in[i];
    }
}

TEST_F(Primitives, Infinity) {
  auto out = buffer<float>(2);
  run("infinities", {1}, 1, {}, out);
  EXPECT_EQ(out.copy(), (std::vector<float>{inf, -inf}));
}

//===----------------------------------------------------------------------===//
// warp.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, ShufflesReadOtherLanesOfTheWarp) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<float>(256);
    run("shuffles", {1}, 64, options, bufferOf(iota(64)), out);
    for (uint32_t i = 0; i < 64; ++i) {
      uint32_t warp = i / 32 * 32, lane = i % 32;
      EXPECT_EQ(out[i], static_cast<float>(warp + 5));
      EXPECT_EQ(out[64 + i], static_cast<float>(warp + (lane + 1) % 32));
      EXPECT_EQ(out[128 + i], static_cast<float>(warp + (lane ^ 3)));
      EXPECT_EQ(out[192 + i], static_cast<float>(warp + (lane < 28 ? lane + 4 : lane)));
    }
  });
}

TEST_F(Primitives, HalvesOfAWarpMayDiverge) {
  std::vector<int32_t> in(32);
  for (int32_t i = 0; i < 32; ++i)
    in[i] = i * i;
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<int32_t>(64);
    run("half_warps", {1}, 32, options, bufferOf(in), out);
    int32_t sums[2] = {};
    for (int32_t i = 0; i < 32; ++i)
      sums[i / 16] += i * i;
    for (int32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(out[i], i < 16 ? (i ^ 1) * (i ^ 1) : i * i); // one exchange with the neighbour, or four
      EXPECT_EQ(out[32 + i], sums[i / 16]);
    }
  });
}

TEST_F(Primitives, VotesTellWhichAnyAndAllLanes) {
  std::vector<uint32_t> in(32);
  for (uint32_t i = 0; i < 32; ++i)
    in[i] = i + 1;
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<uint32_t>(128);
    run("votes", {1}, 32, options, bufferOf(in), out);
    for (uint32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(out[4 * i], 0xfffffc00u);
      EXPECT_EQ(out[4 * i + 1], 1u);
      EXPECT_EQ(out[4 * i + 2], 1u);
      EXPECT_EQ(out[4 * i + 3], 0u);
    }
  });
}

TEST_F(Primitives, ScansAndBitsOfALane) {
  std::vector<uint32_t> in(32);
  for (uint32_t i = 0; i < 32; ++i)
    in[i] = (i * 2654435761u) | 1u << (i % 31);
  forEachSchedule([&](const LaunchOptions &options) {
    auto sums = buffer<uint64_t>(32);
    auto bits = buffer<uint32_t>(64);
    run("warp_scan", {1}, 32, options, bufferOf(in), sums, bits);
    uint64_t sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      sum += uint64_t(in[i]) << 32;
      EXPECT_EQ(sums[i], sum);
      EXPECT_EQ(bits[i], static_cast<uint32_t>(llvm::popcount(in[i])));
      EXPECT_EQ(bits[32 + i], static_cast<uint32_t>(llvm::countr_zero(in[i])));
    }
  });
}

/// The sum of a butterfly over groups of `width`, in its order of additions.
std::vector<float> butterfly(std::vector<float> values, size_t width) {
  for (size_t distance = width / 2; distance > 0; distance /= 2) {
    std::vector<float> before = values;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = before[i] + before[i ^ distance];
  }
  return values;
}

TEST_F(Primitives, WarpReductionsGiveEveryLaneTheSameBits) {
  std::vector<float> in(32); // values whose sum depends on the order
  for (size_t i = 0; i < 32; ++i)
    in[i] = std::ldexp(1.0f + static_cast<float>(i) / 37, static_cast<int>(i * 7 % 31)) * (i % 3 ? 1 : -1);
  ASSERT_NE(butterfly(in, 32)[0], std::accumulate(in.begin(), in.end(), 0.0f));
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<float>(128);
    auto ints = buffer<int32_t>(64);
    run("warp_reductions", {1}, 32, options, bufferOf(in), out, ints);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(out[i], butterfly(in, 32)[0]);
      EXPECT_EQ(out[32 + i], butterfly(in, 8)[i]);
      EXPECT_EQ(out[64 + i], *std::max_element(in.begin(), in.end()));
      EXPECT_EQ(out[96 + i], *std::max_element(&in[i / 4 * 4], &in[i / 4 * 4] + 4));
      EXPECT_EQ(ints[i], 31 * 32 / 2 - 20 * 32);
      EXPECT_EQ(ints[32 + i], -9);
    }
  });
}

TEST_F(Primitives, SyncWarpMakesWritesVisible) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<uint32_t>(64);
    run("warp_exchange", {1}, 64, options, out);
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(out[i], (i ^ 1) * 10);
  });
}

//===----------------------------------------------------------------------===//
// block.cuh, shared.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, SyncThreadsSeparatesRounds) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t block : {1u, 50u, 128u, 1024u}) {
      auto out = buffer<uint32_t>(3 * block);
      run("reverse_rounds", {3}, block, options, out, uint32_t{5});
      for (uint32_t i = 0; i < out.size; ++i)
        EXPECT_EQ(out[i], i / block * block + (block - 1 - i % block) + 5);
    }
  });
}

TEST_F(Primitives, BlockReductionsGiveEveryThreadTheResult) {
  const std::vector<float> in = iota(256, -300);
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t block : {32u, 256u}) {
      auto out = buffer<float>(2 * block);
      auto ints = buffer<int32_t>(2 * block);
      run("block_reductions", {1}, block, options, bufferOf(in), out, ints);
      const float sum = std::accumulate(in.begin(), in.begin() + block, 0.0f);
      for (uint32_t i = 0; i < block; ++i) {
        EXPECT_EQ(out[i], sum);
        EXPECT_EQ(out[block + i], in[block - 1]);
        EXPECT_EQ(ints[i], static_cast<int32_t>(block * (block - 1) / 2));
        EXPECT_EQ(ints[block + i], 0);
      }
    }
  });
}

TEST_F(Primitives, BarriersCountTheThreadsForWhichAPredicateHolds) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t block : {20u, 256u}) {
      auto threes = buffer<uint32_t>(block), fives = buffer<uint32_t>(block);
      run("block_counts", {1}, block, options, threes, fives);
      EXPECT_EQ(threes.copy(), std::vector<uint32_t>(block, (block + 2) / 3));
      EXPECT_EQ(fives.copy(), std::vector<uint32_t>(block, (block + 4) / 5));
    }
  });
}

TEST_F(Primitives, BlockPrefixSumsGiveEveryThreadWhatStandsBeforeIt) {
  std::vector<uint64_t> in;
  for (uint64_t i = 0; i < 256; ++i)
    in.push_back((i * 7919 % 31) << (i % 40));
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t block : {32u, 256u}) {
      auto before = buffer<uint64_t>(block), total = buffer<uint64_t>(block);
      run("block_prefix_sums", {1}, block, options, bufferOf(in), before, total);
      uint64_t sum = 0;
      for (uint32_t i = 0; i < block; ++i) {
        EXPECT_EQ(before[i], sum);
        sum += in[i];
      }
      EXPECT_EQ(total.copy(), std::vector<uint64_t>(block, sum));
    }
  });
}

TEST_F(Primitives, SharedObjectsAreFreshPerBlockAndOnePerType) {
  dynamicBytes = 400;
  forEachSchedule([&](const LaunchOptions &options) {
    auto fresh = buffer<float>(3 * 4);
    auto facts = buffer<uint32_t>(4 * 4 * 32);
    run("shared_objects", {4}, 32, options, fresh, facts);
    for (float value : fresh.copy())
      EXPECT_TRUE(std::isnan(value));
    EXPECT_EQ(facts.copy(), std::vector<uint32_t>(facts.size, 1));
  });
}

TEST_F(Primitives, SharedAddressesMoveByBytes) {
  auto out = buffer<uint32_t>(2);
  run("shared_addresses", {1}, 1, {}, out);
  EXPECT_EQ(out.copy(), (std::vector<uint32_t>{1, 0}));
}

//===----------------------------------------------------------------------===//
// atomic.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, AtomicAddLosesNothing) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto count = bufferOf<uint32_t>({0});
    auto sum = bufferOf<float>({0});
    auto large = bufferOf<uint64_t>({0});
    auto earlier = buffer<uint32_t>(64 * 100);
    run("additions", {100}, 64, options, count, sum, large, earlier);
    EXPECT_EQ(large[0], uint64_t(6400) << 32);
    EXPECT_EQ(count[0], 2u * 6400);
    EXPECT_EQ(sum[0], 3200.0f);
    std::vector<uint32_t> seen = earlier.copy();
    std::sort(seen.begin(), seen.end());
    for (uint32_t i = 0; i < 6400; ++i)
      EXPECT_EQ(seen[i], 2 * i);
  });
}

TEST_F(Primitives, AdditionsInSharedMemoryCarry) {
  std::vector<uint64_t> in;
  for (uint64_t i = 0; i < 64; ++i)
    in.push_back(i << (i % 2 == 0 ? 27 : 34) | 0xffffffff);
  uint64_t wanted[2] = {};
  for (uint64_t i = 0; i < 64; ++i)
    wanted[i % 2] += in[i];
  forEachSchedule([&](const LaunchOptions &options) {
    auto sums = buffer<uint64_t>(2);
    run("shared_additions", {1}, 64, options, bufferOf(in), sums);
    EXPECT_EQ(sums[0], wanted[0]);
    EXPECT_EQ(sums[1], wanted[1]);
  });
}

TEST_F(Primitives, WordsForTheHostAreWritten) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto words = buffer<uint64_t>(64);
    run("words_for_the_host", {1}, 64, options, words);
    for (uint64_t i = 0; i < 64; ++i)
      EXPECT_EQ(words[i], i << 32);
  });
}

TEST_F(Primitives, TheLastToArriveSeesWhatTheOthersWrote) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto partial = buffer<float>(100), total = buffer<float>(1);
    auto arrived = bufferOf<uint32_t>({0});
    run("last_block_sums", {100}, 32, options, partial, arrived, total);
    EXPECT_EQ(total[0], 4950.0f);
  });
}

TEST_F(Primitives, WaitingThreadsSeeAFencedMessage) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto message = bufferOf<uint32_t>({0}), flag = bufferOf<uint32_t>({0}), received = bufferOf<uint32_t>({0});
    run("fenced_message", {1}, 64, options, message, flag, received);
    EXPECT_EQ(received[0], 1234u);
  });
}

TEST_F(Primitives, BlocksOfACooperativeLaunchMayWaitForEachOther) {
  forEachSchedule([&](LaunchOptions options) {
    options.cooperative = true;
    std::vector<uint32_t> initial(2 * 20);
    for (uint32_t i = 0; i < 20; ++i)
      initial[i] = 100 * i;
    auto slots = bufferOf(initial);
    auto arrived = bufferOf<uint32_t>({0});
    run("grid_rounds", {20}, 64, options, slots, arrived, uint32_t{6});
    for (uint32_t i = 0; i < 20; ++i)
      EXPECT_EQ(slots[i], 100 * ((i + 6) % 20) + 6);
  });
}

//===----------------------------------------------------------------------===//
// async_copy.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, AsyncCopiesArriveAtTheWaitForTheirGroup) {
  std::vector<uint32_t> in(512);
  std::iota(in.begin(), in.end(), 0x01020304u);
  std::vector<uint32_t> prefixes(in.begin(), in.begin() + 256); // what copies of i % 17 bytes leave
  for (uint32_t i = 0; i < 64; ++i)
    std::memset(reinterpret_cast<char *>(&prefixes[4 * i]) + i % 17, 0, 16 - i % 17);
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<uint32_t>(4 * 256);
    run("async_copies", {1}, 64, options, bufferOf(in), out);
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t other = (63 - i / 4) * 4 + i % 4;
      EXPECT_EQ(out[i], kEmulatedPoison) << "nothing can be read before the wait";
      EXPECT_EQ(out[256 + i], prefixes[other]);
      EXPECT_EQ(out[512 + i], kEmulatedPoison) << "the second group is under way";
      EXPECT_EQ(out[768 + i], in[256 + other]);
    }
  });
}

//===----------------------------------------------------------------------===//
// tensor_core.cuh
//===----------------------------------------------------------------------===//

TEST_F(Primitives, MatrixLoadsGiveEveryLaneItsElements) {
  std::vector<uint16_t> in(4 * 64); // element (row, col) of matrix m is at 64 m + 8 row + col
  std::iota(in.begin(), in.end(), uint16_t{1000});
  forEachSchedule([&](const LaunchOptions &options) {
    auto plain = buffer<uint32_t>(128), transposed = buffer<uint32_t>(128);
    run("matrix_loads", {1}, 32, options, bufferOf(in), plain, transposed);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t m = 0; m < 4; ++m) {
        auto element = [&](uint32_t row, uint32_t col) { return uint32_t{in[64 * m + 8 * row + col]}; };
        const uint32_t group = lane / 4, pair = lane % 4 * 2;
        EXPECT_EQ(plain[4 * lane + m], element(group, pair) | element(group, pair + 1) << 16);
        EXPECT_EQ(transposed[4 * lane + m], element(pair, group) | element(pair + 1, group) << 16);
      }
  });
}

/// Products of small random integers, which are exact, from operands packed by `encode`, of `depth` elements
/// a row.
template <class Stored>
void expectProducts(
    int depth, function_ref<Stored(float)> encode,
    function_ref<void(std::vector<uint32_t>, std::vector<uint32_t>, std::vector<float>, std::vector<float>)> check) {
  std::mt19937 generator(depth);
  auto small = [&](size_t size) {
    std::vector<float> values(size);
    for (float &value : values)
      value = static_cast<float>(static_cast<int>(generator() % 17) - 8);
    return values;
  };
  auto packed = [&](const std::vector<float> &values) {
    std::vector<Stored> stored;
    for (float value : values)
      stored.push_back(encode(value));
    std::vector<uint32_t> words(stored.size() * sizeof(Stored) / 4);
    std::memcpy(words.data(), stored.data(), words.size() * 4);
    return words;
  };
  const std::vector<float> a = small(16 * depth), b = small(8 * depth), before = small(16 * 8);
  std::vector<float> after = before;
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col)
      for (int k = 0; k < depth; ++k)
        after[row * 8 + col] += a[row * depth + k] * b[col * depth + k];
  check(packed(a), packed(b), before, after);
}

TEST_F(Primitives, TensorCoreProducts) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto expectOf = [&](StringRef kernel) {
      return [&, kernel](std::vector<uint32_t> a, std::vector<uint32_t> b, std::vector<float> before,
                         std::vector<float> after) {
        auto sums = bufferOf(before);
        run(kernel, {1}, 32, options, bufferOf(a), bufferOf(b), sums);
        EXPECT_EQ(sums.copy(), after) << kernel.str();
      };
    };
    expectProducts<uint16_t>(16, toBF16, expectOf("multiply_bf16"));
    expectProducts<uint16_t>(16, toF16, expectOf("multiply_f16"));
    // Of a float, tf32 takes the upper 19 bits: what is below does not count.
    auto withTail = [](float value) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      return bits | 0x1fffu;
    };
    expectProducts<uint32_t>(8, withTail, expectOf("multiply_tf32"));
  });
}

//===----------------------------------------------------------------------===//
// warpgroup.cuh
//===----------------------------------------------------------------------===//

/// Small random integers, so that products are exact, and what they are stored as.
struct SmallMatrix {
  std::vector<float> values;
  std::vector<uint16_t> stored;

  SmallMatrix(size_t size, uint16_t (*encode)(float), std::mt19937 &generator) {
    for (size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>(static_cast<int>(generator() % 17) - 8));
      stored.push_back(encode(values.back()));
    }
  }
};

TEST_F(Primitives, WarpgroupProducts) {
  constexpr size_t rows = 64, cols = 80, depth = 16;
  dynamicBytes = cols * 128;
  auto expectProduct = [&](StringRef kernel, uint16_t (*encode)(float), const LaunchOptions &options) {
    std::mt19937 generator(1);
    const SmallMatrix a(rows * depth, encode, generator), b(depth * cols, encode, generator);
    std::vector<float> product(rows * cols), sums = iota(2 * rows * cols), after = sums;
    for (size_t row = 0; row < rows; ++row)
      for (size_t col = 0; col < cols; ++col)
        for (size_t k = 0; k < depth; ++k)
          product[row * cols + col] += a.values[row * depth + k] * b.values[k * cols + col];
    for (size_t i = 0; i < after.size(); ++i)
      after[i] += product[i % product.size()];
    auto added = bufferOf(sums), plain = buffer<float>(2 * rows * cols), early = buffer<float>(256);
    run(kernel, {1}, 256, options, bufferOf(a.stored), bufferOf(b.stored), added, plain, early);
    EXPECT_EQ(added.copy(), after);
    product.insert(product.end(), product.begin(), product.begin() + rows * cols);
    EXPECT_EQ(plain.copy(), product);
    EXPECT_TRUE(llvm::all_of(early.copy(), [](float x) { return std::isnan(x); }));
  };
  forEachSchedule([&](const LaunchOptions &options) {
    expectProduct("warpgroup_columns", toBF16, options);
    expectProduct("warpgroup_depth", toF16, options);
  });
}

} // namespace
} // namespace kiln
