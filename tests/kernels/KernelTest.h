//===- KernelTest.h - runs kernels and compares ---------------------------------===//
#pragma once

#include "kernels/KernelRunner.h"
#include "kernels/Reference.h"
#include "kernels/Variant.h"

#include <gtest/gtest.h>

#include <random>

namespace kiln {

/// An array with access to its elements as doubles.
struct TestArray {
  void *data;
  DType type;
  size_t size;

  double operator[](size_t i) const;
  void set(size_t i, double value);
  std::vector<double> values() const;
  StringRef bytes() const { return {static_cast<const char *>(data), size * dtypeSize(type)}; }
};

/// An array that a kernel takes as a tensor map.
struct MappedArray {
  TestArray array;
  SmallVector<uint64_t, 5> extents; ///< in elements, the contiguous dimension first
  SmallVector<uint64_t, 5> strides; ///< in bytes, of all dimensions but the first
  SmallVector<uint32_t, 5> box;     ///< in elements
};

/// Launches kernels on random data. The seed is the test's name, so that every test has its own data, the same in every
/// run.
class KernelTest : public testing::Test {
public:
  /// Expects |output − expected| to be at most `tolerance` times the magnitude, plus the rounding of the
  /// output's type; NaN where NaN is expected.
  static void expectClose(const TestArray &output, const Expectation &expected, double tolerance = 1e-6);

protected:
  KernelTest();

  /// Normally distributed elements.
  TestArray random(DType type, size_t size, double mean = 0, double deviation = 1);
  /// Elements that are NaN until a kernel writes them.
  TestArray output(DType type, size_t size);
  TestArray zeros(DType type, size_t size);
  TestArray integers(ArrayRef<int> values);

  /// Compiles the variant and runs it in every way of the runner. Expects that every launch succeeds and leaves the
  /// same bits in `outputs`, which are poisoned before each launch. Arguments are arrays, mapped arrays and numbers.
  template <class... Args>
  void run(const Variant &variant, Dim3 grid, int block, int dynamicSharedBytes, std::vector<TestArray> outputs,
           Args... args) {
    std::vector<LaunchMap> maps;
    size_t index = 0;
    (addMap(maps, index++, args), ...);
    launch(variant, grid, block, dynamicSharedBytes, outputs, {argument(args)...}, std::move(maps));
  }

  /// Blocks of a cluster in the launches that follow, neighbours in x; the kernel says the same.
  uint32_t cluster = 1;
  /// Whether emulated blocks wait for each other in the launches that follow.
  bool cooperative = false;

  /// The GPU whose instructions kernels may use: sm_90a.
  std::string target();

private:
  void launch(const Variant &variant, Dim3 grid, int block, int dynamicSharedBytes, ArrayRef<TestArray> outputs,
              std::vector<KernelArgument> arguments, std::vector<LaunchMap> maps);
  KernelRunner &ownRunner();

  static KernelArgument argument(TestArray &tensor) { return {tensor.data, tensor.bytes().size(), /*isArray=*/true}; }
  static KernelArgument argument(MappedArray &mapped) { return argument(mapped.array); }
  template <class T> static KernelArgument argument(T &number) { return {&number, sizeof(T)}; }

  static void addMap(std::vector<LaunchMap> &maps, size_t index, const MappedArray &mapped) {
    maps.push_back({index, mapped.array.type, mapped.extents, mapped.strides, mapped.box});
  }
  template <class T> static void addMap(std::vector<LaunchMap> &, size_t, const T &) {}

  EmulatedMemory memory;
  std::unique_ptr<KernelRunner> runner;
  std::mt19937 generator;
};

/// ceil(a / b).
inline uint32_t ceilDivide(int a, int b) { return static_cast<uint32_t>((a + b - 1) / b); }

/// The cases, each followed by randomShapeCount() variations made by `reshape`: other extents that the same
/// configuration accepts.
template <class Case>
std::vector<Case> withRandomShapes(std::vector<Case> cases,
                                   Case (*reshape)(const std::type_identity_t<Case> &, function_ref<int(int)>)) {
  std::mt19937 generator(1);
  auto upTo = [&](int most) { return static_cast<int>(generator() % static_cast<unsigned>(most)) + 1; };
  std::vector<Case> all;
  for (const Case &one : cases) {
    all.push_back(one);
    for (int i = 0; i < randomShapeCount(); ++i)
      all.push_back(reshape(one, upTo));
  }
  return all;
}

} // namespace kiln
