//===- PrimitivesTest.h - small kernels, one a primitive --------------------------===//
#pragma once

#include "emulated/Fixture.h"

#include "support/model/DType.h"

namespace kiln {

/// Launches kernels of one file, which together with a test define the meaning of primitives in templates/device/.
class PrimitivesTest : public EmulatedTest {
protected:
  /// `name` is that of kernels/NAME.cu.
  explicit PrimitivesTest(StringRef name) : name(name) {}

  template <class... Args>
  void run(StringRef kernel, Dim3 grid, uint32_t block, const LaunchOptions &options, const Args &...args) {
    Error error = launch(kernelLibrary(name).kernel(kernel), grid, block, options, args...);
    EXPECT_EQ(printed(std::move(error)), "");
  }

private:
  StringRef name;
};

inline std::vector<float> iota(size_t size, float first = 0) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = first + static_cast<float>(i);
  return values;
}

} // namespace kiln
