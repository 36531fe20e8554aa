// Kernels whose blocks form clusters run as the plan says, step by step and in graphs.

#include "runtime/RuntimeTest.h"

#include "support/model/TargetName.h"

namespace kiln {
namespace {

class ClusterTest : public RuntimeTest {
protected:
  ClusterTest() : RuntimeTest(16, "f32", maxBatch, 0, "graph", context, 1, /*fusesResidual=*/false) {}

  /// last_row of the plan by clusters of four blocks, one for each half of the batch. A block has four of the row's 16
  /// columns. It sends them to the first block, which also loads them, and writes the mean of both and of what the
  /// block has stored there.
  static constexpr char source[] = R"(#include "device/cluster.cuh"
#include "device/device.cuh"

using namespace kiln;

struct alignas(16) Storage {
  float own[4], sent[16], stored[16];
  SharedBarrier full, empty;
};

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(32)
last_row__f32__n16(const float *x, const int *lengths, float *last_row_out, int B, int T) {
  Storage &shared = sharedStorage<Storage>();
  const u32 rank = clusterRank(), lane = threadIndex();
  if (lane == 0) {
    initBarrier(shared.full, clusterBlocks() + 1);
    initBarrier(shared.empty, 1);
    fenceBarriers();
  }
  syncCluster();
  waitForDependencies();
  u32 round = 0;
  for (int b = int(blockIndexX() / clusterBlocks()); b < B; b += int(gridBlocksX() / clusterBlocks()), ++round) {
    if (rank == 0 && lane == 0)
      arriveExpecting(shared.full, 64);
    arriveCluster();
    const auto own = load<4>(x + (b * T + lengths[b] - 1) * 16 + rank * 4);
    waitCluster();
    if (lane == 0) {
      storeShared(shared.own, own);
      store(inBlock(shared.stored, 0) + rank * 4, own);
      storeAsync(inBlock(shared.sent, 0) + rank * 4, own, inBlock(&shared.full, 0));
      arrive(inBlock(&shared.full, 0));
    }
    syncWarp();
    if (rank == 0) {
      waitClusterBarrier(shared.full, round % 2);
      if (lane < 16) {
        const float loaded = load<1>(inBlock(shared.own, lane / 4) + lane % 4)[0];
        last_row_out[b * 16 + int(lane)] = (shared.sent[lane] + shared.stored[lane] + 2.0f * loaded) * 0.25f;
      }
      syncWarp();
      if (lane < clusterBlocks())
        arrive(inBlock(&shared.empty, lane));
    }
    waitClusterBarrier(shared.empty, round % 2);
  }
  syncCluster();
}
)";

  /// The same by one cluster of two blocks and a map of x, as [B*T, 16]. Each block copies a box of one row of 32
  /// floats, of which half lies outside, to both; the second block writes the mean of the two copies.
  static constexpr char mappedSource[] = R"(#include "device/cluster_copy.cuh"
#include "device/device.cuh"

using namespace kiln;

struct Storage {
  alignas(kWarpgroupTileAlignment) float rows[2][256];
  SharedBarrier full, empty;
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32)
last_row__f32__n16(const __grid_constant__ TensorMap x_map, const int *lengths, float *last_row_out, int B, int T) {
  Storage &shared = sharedStorage<Storage>();
  const u32 lane = threadIndex();
  if (lane == 0) {
    prefetchMap(x_map);
    initBarrier(shared.full, 1);
    initBarrier(shared.empty, 2);
    fenceBarriers();
  }
  syncCluster();
  waitForDependencies();
  for (int b = 0; b < B; ++b) {
    if (lane == 0) {
      waitClusterBarrier(shared.empty, u32(b) % 2 ^ 1);
      arriveExpecting(shared.full, 256);
      copyBoxToBlocks(SharedAddress(shared.rows[clusterRank()]), x_map, {0, b * T + lengths[b] - 1}, shared.full, 3);
    }
    syncWarp();
    waitClusterBarrier(shared.full, u32(b) % 2);
    if (clusterRank() == 1 && lane < 16)
      last_row_out[b * 16 + int(lane)] = (shared.rows[0][lane] + shared.rows[1][lane]) * 0.5f + shared.rows[0][16 + lane];
    syncWarp();
    if (lane < 2)
      arrive(inBlock(&shared.empty, lane));
  }
  syncCluster();
}
)";

  /// The plan with one of these kernels.
  Plan clusteredPlan(int64_t cluster, int64_t blocks, bool isMapped) {
    Plan plan = unwrap(readPlan(planDirectory()));
    for (PlanKernel &kernel : plan.kernels)
      if (kernel.name == "last_row__f32__n16") {
        kernel.cluster = cluster;
        if (isMapped)
          kernel.maps = {{0, DType::F32, {16, Expr::name("B") * Expr::name("T")}, {64}, {32, 1}}};
      }
    for (PlanFunction &function : plan.functions)
      for (PlanStep &step : function.steps)
        if (step.launch.kernel == "last_row__f32__n16") {
          step.launch.grid = {blocks, 1, 1};
          step.launch.threads = 32;
        }
    return unwrap(parsePlan(sources.add("plan.toml", writePlan(plan))));
  }

  /// Expects the logits of the plan as it is from one with the kernel's source, in a graph and step by step.
  void expectSameLogits(StringRef kernel, Plan plan) {
    if (std::error_code failure = llvm::sys::fs::create_directory(directory.str() + "/edited"))
      ADD_FAILURE() << failure.message();
    directory.write("edited/last_row__f32__n16.cu", kernel);
    auto plain = unwrap(open(weights, maxBatch));
    for (bool stepByStep : {false, true}) {
      plan.stepByStep = stepByStep;
      auto clustered = unwrap(Executor::create(*device, plan, {planDirectory(), directory.str() + "/edited"}, weights,
                                               {maxBatch, context, {Entry::Prefill, Entry::Decode}}));
      for (auto [batch, tokens] : {std::pair(2, 8), std::pair(5, 5), std::pair(2, 8), std::pair(8, 24)})
        EXPECT_EQ(prefill(*clustered, batch, tokens), prefill(*plain, batch, tokens)) << batch << " × " << tokens;
      auto launches = unwrap(clustered->launches(clustered->call(Entry::Prefill, 3, 5)));
      EXPECT_TRUE(llvm::any_of(launches, [](const KernelLaunch &one) { return one.cluster > 1; }));
    }
  }

  void SetUp() override {
    if (computeCapability(targetOf(*counted)) < clusterCapability)
      GTEST_SKIP() << "expected a GPU with clusters, sm_90 or later, got one of " << targetOf(*counted);
  }
};

TEST_F(ClusterTest, BlocksOfAClusterRunTogether) { expectSameLogits(source, clusteredPlan(4, 8, /*isMapped=*/false)); }

TEST_F(ClusterTest, BlocksOfAClusterShareCopies) {
  expectSameLogits(mappedSource, clusteredPlan(2, 2, /*isMapped=*/true));
}

} // namespace
} // namespace kiln
