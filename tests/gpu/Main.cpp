#include "runtime/device/cuda/CudaDevice.h"

#include <gtest/gtest.h>

// Without a GPU, prints so and succeeds; ctest then shows the test as skipped.
int main(int argc, char **argv) {
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && !kiln::CudaDevice::isAvailable()) {
    llvm::outs() << "skipped: no GPU, or no driver for it, on this machine\n";
    return 0;
  }
  return RUN_ALL_TESTS();
}
