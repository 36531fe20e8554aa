// Meaning of the primitives by which threads identify and synchronise themselves, checked under every schedule.

#include "emulated/PrimitivesTest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln {
namespace {

struct ThreadPrimitives : PrimitivesTest {
  ThreadPrimitives() : PrimitivesTest("threads") {}
};

//===----------------------------------------------------------------------===//
// index.cuh
//===----------------------------------------------------------------------===//

TEST_F(ThreadPrimitives, Coordinates) {
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
// warp.cuh
//===----------------------------------------------------------------------===//

TEST_F(ThreadPrimitives, ShufflesReadOtherLanesOfTheWarp) {
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

TEST_F(ThreadPrimitives, HalvesOfAWarpMayDiverge) {
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

TEST_F(ThreadPrimitives, VotesTellWhichAnyAndAllLanes) {
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

TEST_F(ThreadPrimitives, ScansAndBitsOfALane) {
  std::vector<uint32_t> in(32);
  for (uint32_t i = 0; i < 32; ++i)
    in[i] = (i * 2654435761u) | 1u << (i % 31);
  forEachSchedule([&](const LaunchOptions &options) {
    auto sums = buffer<uint64_t>(32);
    auto bits = buffer<uint32_t>(96);
    run("warp_scan", {1}, 32, options, bufferOf(in), sums, bits);
    uint64_t sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      sum += uint64_t(in[i]) << 32;
      EXPECT_EQ(sums[i], sum);
      EXPECT_EQ(bits[i], static_cast<uint32_t>(llvm::popcount(in[i])));
      EXPECT_EQ(bits[32 + i], static_cast<uint32_t>(llvm::countr_zero(in[i])));
      EXPECT_EQ(bits[64 + i], static_cast<uint32_t>(llvm::countl_zero(uint64_t(in[i]) << 8)));
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

TEST_F(ThreadPrimitives, WarpReductionsGiveEveryLaneTheSameBits) {
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

TEST_F(ThreadPrimitives, SyncWarpMakesWritesVisible) {
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

TEST_F(ThreadPrimitives, SyncThreadsSeparatesRounds) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t block : {1u, 50u, 128u, 1024u}) {
      auto out = buffer<uint32_t>(3 * block);
      run("reverse_rounds", {3}, block, options, out, uint32_t{5});
      for (uint32_t i = 0; i < out.size; ++i)
        EXPECT_EQ(out[i], i / block * block + (block - 1 - i % block) + 5);
    }
  });
}

TEST_F(ThreadPrimitives, BlockReductionsGiveEveryThreadTheResult) {
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

TEST_F(ThreadPrimitives, BarriersCountTheThreadsForWhichAPredicateHolds) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t block : {20u, 256u}) {
      auto threes = buffer<uint32_t>(block), fives = buffer<uint32_t>(block);
      run("block_counts", {1}, block, options, threes, fives);
      EXPECT_EQ(threes.copy(), std::vector<uint32_t>(block, (block + 2) / 3));
      EXPECT_EQ(fives.copy(), std::vector<uint32_t>(block, (block + 4) / 5));
    }
  });
}

TEST_F(ThreadPrimitives, BlockPrefixSumsGiveEveryThreadWhatStandsBeforeIt) {
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

TEST_F(ThreadPrimitives, SharedObjectsAreFreshPerBlockAndOnePerType) {
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

TEST_F(ThreadPrimitives, SharedAddressesMoveByBytes) {
  auto out = buffer<uint32_t>(2);
  run("shared_addresses", {1}, 1, {}, out);
  EXPECT_EQ(out.copy(), (std::vector<uint32_t>{1, 0}));
}

//===----------------------------------------------------------------------===//
// atomic.cuh
//===----------------------------------------------------------------------===//

TEST_F(ThreadPrimitives, AtomicAddLosesNothing) {
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

TEST_F(ThreadPrimitives, AdditionsInSharedMemoryCarry) {
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

TEST_F(ThreadPrimitives, WordsForTheHostAreWritten) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto words = buffer<uint64_t>(64);
    run("words_for_the_host", {1}, 64, options, words);
    for (uint64_t i = 0; i < 64; ++i)
      EXPECT_EQ(words[i], i << 32);
  });
}

TEST_F(ThreadPrimitives, TheLastToArriveSeesWhatTheOthersWrote) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto partial = buffer<float>(100), total = buffer<float>(1);
    auto arrived = bufferOf<uint32_t>({0});
    run("last_block_sums", {100}, 32, options, partial, arrived, total);
    EXPECT_EQ(total[0], 4950.0f);
  });
}

TEST_F(ThreadPrimitives, WaitingThreadsSeeAFencedMessage) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto message = bufferOf<uint32_t>({0}), flag = bufferOf<uint32_t>({0}), received = bufferOf<uint32_t>({0});
    run("fenced_message", {1}, 64, options, message, flag, received);
    EXPECT_EQ(received[0], 1234u);
  });
}

TEST_F(ThreadPrimitives, BlocksOfACooperativeLaunchMayWaitForEachOther) {
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

} // namespace
} // namespace kiln
