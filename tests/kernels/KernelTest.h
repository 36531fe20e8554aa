//===- KernelTest.h - runs kernels on the CPU and compares -----------------------===//
#pragma once

#include "kernels/Reference.h"
#include "kernels/Variant.h"
#include "runtime/emulated/HostKernelCompiler.h"
#include "runtime/emulated/Launcher.h"

#include <gtest/gtest.h>

#include <random>

namespace kiln {

/// An array in the memory of the emulated device, seen as doubles.
struct Tensor {
  void *data;
  DType type;
  size_t size;

  double operator[](size_t i) const;
  void set(size_t i, double value);
  std::vector<double> values() const;
  StringRef bytes() const { return {static_cast<const char *>(data), size * dtypeSize(type)}; }
};

/// Launches kernels on random data: the seed is the test's name, so that every test has data of its own, the
/// same in every run.
class KernelTest : public testing::Test {
protected:
  KernelTest();

  /// Normally distributed elements.
  Tensor random(DType type, size_t size, double mean = 0, double deviation = 1);
  /// Elements that are NaN until a kernel writes them.
  Tensor output(DType type, size_t size);
  Tensor zeros(DType type, size_t size);
  Tensor integers(ArrayRef<int> values);

  /// Compiles the variant and runs it under several schedules. Expects that every launch succeeds and leaves
  /// the same bits in `outputs`, which are poisoned before each. Arguments are tensors and numbers.
  template <class... Args>
  void run(const Variant &variant, Dim3 grid, int block, int dynamicSharedBytes, std::vector<Tensor> outputs,
           Args... args) {
    launch(variant, grid, block, dynamicSharedBytes, outputs, {argument(args)...});
  }

  /// Expects |output − expected| to be at most `tolerance` times the magnitude, plus the rounding of the
  /// output's type.
  static void expectClose(const Tensor &output, const Expectation &expected, double tolerance = 1e-6);

private:
  void launch(const Variant &variant, Dim3 grid, int block, int dynamicSharedBytes, ArrayRef<Tensor> outputs,
              std::vector<void *> args);

  static void *argument(Tensor &tensor) { return &tensor.data; }
  template <class T> static void *argument(T &number) { return &number; }

  EmulatedMemory memory;
  EmulatedLauncher launcher{&memory};
  std::mt19937 generator;
};

/// ceil(a / b).
inline uint32_t ceilDivide(int a, int b) { return static_cast<uint32_t>((a + b - 1) / b); }

} // namespace kiln
