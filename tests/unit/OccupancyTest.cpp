// The blocks that a multiprocessor holds, compared with NVIDIA's occupancy calculator (the spreadsheet of the toolkit).
#include "kernels/cost/Occupancy.h"

#include "TestSupport.h"

namespace kiln {
namespace {

Occupancy of(StringRef target, const BlockDemand &demand) {
  return occupancyOf(demand, *cantFail(findTarget(target), "a target of this project"));
}

TEST(Occupancy, EachLimit) {
  EXPECT_EQ(of("sm_90a", {256, 32, 0}).blocks, 8);
  EXPECT_EQ(of("sm_90a", {256, 32, 0}).limit, "threads");
  EXPECT_DOUBLE_EQ(of("sm_90a", {256, 32, 0}).share, 1);

  EXPECT_EQ(of("sm_86", {32, 16, 0}).blocks, 16);
  EXPECT_EQ(of("sm_86", {32, 16, 0}).limit, "blocks");
  EXPECT_DOUBLE_EQ(of("sm_86", {32, 16, 0}).share, 512.0 / 1536);

  EXPECT_EQ(of("sm_90a", {256, 128, 0}).blocks, 2);
  EXPECT_EQ(of("sm_90a", {256, 128, 0}).limit, "registers");

  EXPECT_EQ(of("sm_80", {128, 32, 48 * 1024}).blocks, 3);
  EXPECT_EQ(of("sm_80", {128, 32, 48 * 1024}).limit, "shared memory");
}

TEST(Occupancy, RegistersGoToWholeWarpsOfAQuarter) {
  // 97 registers become 104 (3328 per warp): 4 warps per quarter, 16 in all. Without rounding it would be 21.
  EXPECT_EQ(of("sm_90a", {64, 97, 0}).blocks, 8);
  EXPECT_EQ(of("sm_90a", {96, 97, 0}).blocks, 5);
}

TEST(Occupancy, ABlockThatDoesNotFit) {
  EXPECT_EQ(of("sm_90a", {1024, 255, 0}).blocks, 0);
  EXPECT_EQ(of("sm_86", {32, 16, 100 * 1024}).blocks, 0);
}

TEST(Target, Roofline) {
  const Target &target = *cantFail(findTarget("sm_80"), "a target of this project");
  EXPECT_DOUBLE_EQ(target.rooflineSeconds(1900000, 1, DType::F32), 1e-6);
  EXPECT_DOUBLE_EQ(target.rooflineSeconds(1, 19500000, DType::F32), 1e-6);
  EXPECT_DOUBLE_EQ(target.rooflineSeconds(1, 312000000, DType::BF16), 1e-6);
}

} // namespace
} // namespace kiln
