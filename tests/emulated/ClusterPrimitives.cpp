// Meaning of the primitives for blocks that form clusters, checked under every schedule. All kernels run with checked
// accesses too: they have no races.

#include "emulated/PrimitivesTest.h"

#include "device/tensor_copy.cuh"

#include <cmath>
#include <numeric>

namespace kiln {
namespace {

struct ClusterPrimitives : EmulatedTest {
  template <class... Args>
  void run(StringRef kernel, Dim3 grid, uint32_t block, uint32_t cluster, const LaunchOptions &options, bool isChecked,
           const Args &...args) {
    LaunchOptions clustered = options;
    clustered.cluster = cluster;
    Error error = launch(kernelLibrary("clusters", isChecked).kernel(kernel), grid, block, clustered, args...);
    EXPECT_EQ(printed(std::move(error)), "");
  }

  void forEachScheduleAndCheck(function_ref<void(const LaunchOptions &, bool)> check) {
    for (bool isChecked : {false, true})
      forEachSchedule([&](const LaunchOptions &options) { check(options, isChecked); });
  }
};

TEST_F(ClusterPrimitives, BlocksAreNeighboursInX) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    for (uint32_t cluster : {1, 2, 3, 6}) {
      auto out = buffer<uint32_t>(6 * 2 * 2);
      run("places", {6, 2}, 33, cluster, options, isChecked, out);
      for (uint32_t i = 0; i < 12; ++i) {
        EXPECT_EQ(out[2 * i], i % 6 % cluster);
        EXPECT_EQ(out[2 * i + 1], cluster);
      }
    }
  });
}

TEST_F(ClusterPrimitives, LoadsAndStoresInOtherBlocks) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    for (StringRef kernel : {"rotate_floats", "rotate_bf16s"})
      for (uint32_t cluster : {1, 2, 8}) {
        auto out = buffer<float>(8 * 64);
        run(kernel, {8}, 48, cluster, options, isChecked, out);
        for (uint32_t i = 0; i < out.size; ++i) {
          // A block stores twice what it has loaded where it came from.
          const float rank = static_cast<float>(i / 64 % cluster), place = static_cast<float>(i % 64);
          const float expected[] = {place, place, 2, 100 * rank};
          EXPECT_EQ(out[i], 2 * expected[i % 4]);
        }
      }
  });
}

TEST_F(ClusterPrimitives, ObjectsInOtherBlocks) {
  dynamicBytes = 32;
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    auto out = buffer<uint64_t>(2);
    run("objects", {2}, 32, 2, options, isChecked, out);
    EXPECT_EQ(out.copy(), (std::vector<uint64_t>{11 + (uint64_t{1} << 40) + 1 + 3, 10 + 3}));
  });
}

TEST_F(ClusterPrimitives, BarrierInTwoHalves) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    auto out = buffer<uint32_t>(4 * 3);
    run("halves", {4}, 96, 2, options, isChecked, out);
    for (uint32_t i = 0; i < out.size; ++i)
      EXPECT_EQ(out[i], (i % 3 * 10 + (i / 3 % 2 ^ 1)) * 10 + i % 3);
  });
}

TEST_F(ClusterPrimitives, ArrivalsAtBarriersOfOtherBlocks) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    auto out = buffer<uint32_t>(8 * 32);
    run("ring_of_blocks", {8}, 32, 4, options, isChecked, out, uint32_t{6});
    for (uint32_t i = 0; i < out.size; ++i) {
      const uint32_t block = i / 32, origin = block / 4 * 4 + (block % 4 + 8 - 6) % 4;
      EXPECT_EQ(out[i], origin * 32 + i % 32 + 6);
    }
  });
}

TEST_F(ClusterPrimitives, BytesThatArriveAtBarriersOfOtherBlocks) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    for (uint32_t cluster : {2, 8}) {
      auto out = buffer<float>(8 * 64);
      run("exchange", {8}, 8 * 32, cluster, options, isChecked, out, uint32_t{5});
      // A round multiplies the sum by the number of blocks, after the first has added up the ranks.
      const float powers = std::pow(static_cast<float>(cluster), 4.0f);
      const float first = static_cast<float>(cluster * (cluster + 1)) / 2;
      for (uint32_t i = 0; i < out.size; ++i)
        EXPECT_EQ(out[i], powers * (i % 2 == 0 ? first : static_cast<float>(cluster)));
    }
  });
}

TEST_F(ClusterPrimitives, EveryWidthOfBytes) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    auto out = buffer<uint32_t>(4 * 8);
    run("widths", {4}, 64, 2, options, isChecked, out);
    for (uint32_t block = 0; block < 4; ++block)
      EXPECT_EQ(std::vector<uint32_t>(out.data + block * 8, out.data + block * 8 + 7),
                (std::vector<uint32_t>{3, 5, 3, block % 2 ^ 1, 7, 0, 9}));
  });
}

TEST_F(ClusterPrimitives, ClustersOfACooperativeLaunchMayWaitForEachOther) {
  forEachScheduleAndCheck([&](LaunchOptions options, bool isChecked) {
    options.cooperative = true;
    auto counter = bufferOf(std::vector<uint32_t>{0});
    auto out = buffer<uint32_t>(12);
    run("clusters_that_wait", {12}, 64, 3, options, isChecked, counter, buffer<uint32_t>(4), out);
    for (uint32_t i = 0; i < out.size; ++i)
      EXPECT_EQ(out[i], i % 3 == 2 ? 100 + i / 3 : 406);
  });
}

TEST_F(ClusterPrimitives, ALoadThatAcquiresOrdersPhasesThoughItNeedNotWait) {
  forEachScheduleAndCheck([&](LaunchOptions options, bool isChecked) {
    options.cooperative = true;
    auto counter = bufferOf(std::vector<uint32_t>{0});
    auto out = buffer<uint32_t>(2);
    run("counter_between_phases", {2}, 32, 2, options, isChecked, counter, out);
    EXPECT_EQ(out[0], 1u);
    EXPECT_EQ(out[1], 2u);
  });
}

TEST_F(ClusterPrimitives, BlocksOfACooperativeLaunchExchangeStampedValues) {
  forEachScheduleAndCheck([&](LaunchOptions options, bool isChecked) {
    options.cooperative = true;
    auto words = bufferOf(std::vector<uint64_t>(2 * 6 * 2));
    auto out = buffer<float>(12);
    run("mailboxes", {6}, 32, 2, options, isChecked, words, out, uint32_t{3});
    // A round multiplies by the number of blocks, and then by that of a cluster's; the first begins with 0 + … + 5.
    for (uint32_t i = 0; i < out.size; ++i)
      EXPECT_EQ(out[i], (i % 2 == 0 ? 15 : 6) * 2 * 12 * 12);
  });
}

TEST_F(ClusterPrimitives, BoxesForSeveralBlocks) {
  constexpr uint32_t steps = 5;
  dynamicBytes = 2 * 8 * 1024 + 1024;
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    for (uint32_t cluster : {1, 2, 4}) {
      std::vector<uint32_t> words(size_t{steps} * cluster * 8 * 32);
      std::iota(words.begin(), words.end(), 1);
      TensorMap map;
      map.data = bufferOf(words).data;
      map.strides[0] = 128;
      map.extents[0] = 32, map.extents[1] = steps * cluster * 8;
      map.box[0] = 32, map.box[1] = 8;
      map.rank = 2;
      map.elementBytes = 4;
      auto out = buffer<uint32_t>(8);
      run("slices_for_all", {8}, 64, cluster, options, isChecked, map, steps, out);
      const uint32_t expected = std::accumulate(words.begin(), words.end(), uint32_t{0});
      EXPECT_EQ(out.copy(), std::vector<uint32_t>(8, expected));
    }
  });
}

TEST_F(ClusterPrimitives, LaunchesHaveWholeClustersOfAtMost8Blocks) {
  auto refused = [&](Dim3 grid, uint32_t cluster) {
    LaunchOptions options;
    options.cluster = cluster;
    return printed(launch(kernelLibrary("clusters").kernel("places"), grid, 32, options, buffer<uint32_t>(64)));
  };
  const std::string start = "clusters.cu: error: kernel places: expected a ";
  EXPECT_EQ(refused({4}, 0), start + "cluster of 1 to 8 blocks, got 0\n");
  EXPECT_EQ(refused({16}, 16), start + "cluster of 1 to 8 blocks, got 16\n");
  EXPECT_EQ(refused({6, 4}, 4), start + "grid of whole clusters of 4 blocks in x, got 6 blocks\n");
}

} // namespace
} // namespace kiln
