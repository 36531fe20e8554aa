// Kernels that take tensors as tensor maps get maps of the tensors of each call.

#include "runtime/RuntimeTest.h"

#include "support/Diagnostic.h"
#include "support/model/TargetName.h"

namespace kiln {
namespace {

class TensorMapTest : public RuntimeTest {
protected:
  /// last_row of the plan, which takes rows of 16 floats as a map of [B*T, 16]. A box is two rows of 32 floats, so that
  /// half of it lies outside the tensor; behind the last row of a call, so does the second row. These must be zero.
  static constexpr char source[] = R"(#include "device/device.cuh"
#include "device/barrier.cuh"
#include "device/tensor_copy.cuh"

using namespace kiln;

struct Storage {
  alignas(kWarpgroupTileAlignment) float rows[2][32];
  SharedBarrier full;
};

extern "C" __global__ void __launch_bounds__(256)
last_row__f32__n16(const __grid_constant__ TensorMap x_map, const int *lengths, float *last_row_out, int B, int T) {
  Storage &shared = sharedStorage<Storage>();
  if (threadIndex() == 0) {
    prefetchMap(x_map);
    initBarrier(shared.full, 1);
    fenceBarriers();
  }
  syncThreads();
  waitForDependencies();
  const int col = int(threadIndex());
  for (int b = 0; b < B; ++b) {
    const int row = b * T + lengths[b] - 1;
    if (col == 0) {
      arriveExpecting(shared.full, sizeof(shared.rows));
      copyBox(SharedAddress(shared.rows), x_map, {0, row}, shared.full);
    }
    waitBarrier(shared.full, u32(b) % 2);
    if (col < 16) {
      const bool isLast = row + 1 == B * T;
      last_row_out[b * 16 + col] = shared.rows[0][col] + shared.rows[0][16 + col] + (isLast ? shared.rows[1][col] : 0);
    }
    syncThreads();
  }
}
)";

  TensorMapTest() : RuntimeTest(16, "f32", maxBatch, 0, "graph", context, 1, /*fusesResidual=*/false) {
    if (std::error_code failure = llvm::sys::fs::create_directory(directory.str() + "/edited"))
      ADD_FAILURE() << failure.message();
    directory.write("edited/last_row__f32__n16.cu", source);
  }

  bool copiesBoxes() const { return computeCapability(targetOf(*counted)) >= 90; }

  /// The plan, whose last_row takes its first argument as a map.
  Plan mappedPlan() {
    Plan plan = unwrap(readPlan(planDirectory()));
    auto kernel = llvm::find_if(plan.kernels, [](const auto &one) { return one.name == "last_row__f32__n16"; });
    if (kernel == plan.kernels.end())
      ADD_FAILURE() << "the plan has no kernel last_row__f32__n16";
    else
      kernel->maps = {{0, DType::F32, {16, Expr::name("B") * Expr::name("T")}, {64}, {32, 2}}};
    return unwrap(parsePlan(sources.add("plan.toml", writePlan(plan))));
  }
};

TEST_F(TensorMapTest, MapsAreOfTheTensorsOfACall) {
  if (!copiesBoxes())
    GTEST_SKIP() << "expected a GPU that copies boxes of tensors, sm_90 or later, got one of " << targetOf(*counted);
  auto plain = unwrap(open(weights, maxBatch));
  auto mapped = unwrap(Executor::create(*device, mappedPlan(), {planDirectory(), directory.str() + "/edited"}, weights,
                                        {maxBatch, context, {Entry::Prefill, Entry::Decode}}));
  for (auto [batch, tokens] : {std::pair(2, 8), std::pair(3, 5), std::pair(2, 8), std::pair(1, 24)})
    EXPECT_EQ(prefill(*mapped, batch, tokens), prefill(*plain, batch, tokens)) << batch << " × " << tokens;

  // The values come from the formulas; the word of the argument stays the tensor's address.
  auto launches = unwrap(mapped->launches(mapped->call(Entry::Prefill, 3, 5)));
  auto launch = llvm::find_if(launches, [](const KernelLaunch &one) { return !one.maps.empty(); });
  ASSERT_NE(launch, launches.end());
  ASSERT_EQ(launch->maps.size(), 1U);
  const LaunchMap &map = launch->maps.front();
  EXPECT_EQ(map.extents, (SmallVector<uint64_t, 5>{16, 15}));
  EXPECT_EQ(map.strides, (SmallVector<uint64_t, 5>{64}));
  EXPECT_EQ(map.box, (SmallVector<uint32_t, 5>{32, 2}));
  EXPECT_EQ(launch->arguments[map.argument], reinterpret_cast<uint64_t>(launch->tensors.front().address));
}

TEST_F(TensorMapTest, KernelAndPlanAgreeOnMaps) {
  auto create = [&](Plan plan, const std::string &edited) {
    auto executor = Executor::create(*device, std::move(plan), {planDirectory(), edited}, weights,
                                     {maxBatch, context, {Entry::Prefill, Entry::Decode}});
    if (!executor)
      return messageOf(executor.takeError());
    // The emulated device compiles the kernel, and finds it, when it is launched first.
    return messageOf(device->makeGraph(unwrap((*executor)->launches((*executor)->call(Entry::Prefill, 2, 8))), {}));
  };
  EXPECT_EQ(create(mappedPlan(), ""), "error: kernel last_row__f32__n16: argument 1: expected 8 bytes, got a map of "
                                      "%x.1 of 128 bytes\n");
  EXPECT_EQ(create(unwrap(readPlan(planDirectory())), directory.str() + "/edited"),
            "error: kernel last_row__f32__n16: argument 1: expected 128 bytes, got the address %x.1 of 8 bytes\n");
}

} // namespace
} // namespace kiln
