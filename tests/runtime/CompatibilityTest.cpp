// What the CUDA device refuses before it uses a GPU, and which cubins it accepts.

#include "runtime/device/cuda/Compatibility.h"
#include "unit/TestSupport.h"

namespace kiln {
namespace {

TEST(CompatibilityTest, MachinesThatCannotRunPlansAreRefused) {
  EXPECT_EQ(messageOf(checkMachine({0, 13000, 0}, 0)), "error: no NVIDIA driver on this machine\n");
  EXPECT_EQ(messageOf(checkMachine({12080, 13000, 1}, 0)),
            "error: the NVIDIA driver supports CUDA 12.8, expected 13.0 or newer; update the driver\n");
  EXPECT_EQ(messageOf(checkMachine({13000, 13000, 0}, 0)),
            "error: no GPU that the NVIDIA driver can use on this machine\n");
  EXPECT_EQ(messageOf(checkMachine({13000, 13000, 2}, 2)),
            "error: --device cuda:2: expected 0 to 1, the number of a GPU of this machine\n");
  expectSuccess(checkMachine({13000, 13010, 1}, 0)); // minor versions are compatible
  expectSuccess(checkMachine({14000, 13000, 2}, 1));
}

TEST(CompatibilityTest, CubinsRunOnTheirOwnGeneration) {
  std::vector<std::string> cubins = {"sm_80", "sm_86", "sm_90a"};
  EXPECT_EQ(cubinTargetFor("sm_90a", cubins), "sm_90a");
  EXPECT_EQ(cubinTargetFor("sm_89", cubins), "sm_86");
  EXPECT_EQ(cubinTargetFor("sm_86", {"sm_80"}), "sm_80");
  EXPECT_EQ(cubinTargetFor("sm_80", {"sm_86"}), std::nullopt);
  EXPECT_EQ(cubinTargetFor("sm_100", cubins), std::nullopt);
  EXPECT_EQ(cubinTargetFor("sm_90a", {}), std::nullopt);
}

TEST(CompatibilityTest, PtxIsForItsGpuAndLaterOnes) {
  std::vector<std::string> ptx = {"compute_100", "compute_80", "compute_90"};
  EXPECT_EQ(ptxTargetFor("sm_80", ptx), "compute_80");
  EXPECT_EQ(ptxTargetFor("sm_89", ptx), "compute_80");
  EXPECT_EQ(ptxTargetFor("sm_90a", ptx), "compute_90");
  EXPECT_EQ(ptxTargetFor("sm_120", ptx), "compute_100");
  EXPECT_EQ(ptxTargetFor("sm_75", ptx), std::nullopt);
  EXPECT_EQ(ptxTargetFor("sm_90a", {}), std::nullopt);
}

} // namespace
} // namespace kiln
