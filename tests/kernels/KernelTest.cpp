#include "kernels/KernelTest.h"

#include "support/Diagnostic.h"

#include <cmath>

namespace kiln {

double TestArray::operator[](size_t i) const {
  const uint16_t *half = static_cast<const uint16_t *>(data) + i;
  switch (type) {
  case DType::F32:
    return static_cast<const float *>(data)[i];
  case DType::F16:
    return fromF16(*half);
  case DType::BF16:
    return fromBF16(*half);
  case DType::I32:
    return static_cast<const int32_t *>(data)[i];
  }
  llvm_unreachable("every element type is listed");
}

void TestArray::set(size_t i, double value) {
  uint16_t *half = static_cast<uint16_t *>(data) + i;
  switch (type) {
  case DType::F32:
    static_cast<float *>(data)[i] = static_cast<float>(value);
    return;
  case DType::F16:
    *half = toF16(static_cast<float>(value));
    return;
  case DType::BF16:
    *half = toBF16(static_cast<float>(value));
    return;
  case DType::I32:
    static_cast<int32_t *>(data)[i] = static_cast<int32_t>(value);
    return;
  }
}

std::vector<double> TestArray::values() const {
  std::vector<double> result(size);
  for (size_t i = 0; i < size; ++i)
    result[i] = (*this)[i];
  return result;
}

KernelTest::KernelTest() {
  const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
  const StringRef suite = test->test_suite_name(), name = test->name();
  std::seed_seq seed(name.begin(), name.end());
  generator.seed(seed);
  generator.discard(suite.size());
}

TestArray KernelTest::output(DType type, size_t size) {
  return {cantFail(memory.allocate(size * dtypeSize(type), "buffer")), type, size};
}

TestArray KernelTest::random(DType type, size_t size, double mean, double deviation) {
  TestArray tensor = output(type, size);
  std::normal_distribution<double> distribution(mean, deviation);
  for (size_t i = 0; i < size; ++i)
    tensor.set(i, distribution(generator));
  return tensor;
}

TestArray KernelTest::zeros(DType type, size_t size) {
  TestArray tensor = output(type, size);
  for (size_t i = 0; i < size; ++i)
    tensor.set(i, 0);
  return tensor;
}

TestArray KernelTest::integers(ArrayRef<int> values) {
  TestArray tensor = output(DType::I32, values.size());
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set(i, values[i]);
  return tensor;
}

/// An error's diagnostics, printed; empty for success.
static std::string printed(Error error) {
  std::string text;
  raw_string_ostream os(text);
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    diagnostic.print(os);
  return text;
}

KernelRunner &KernelTest::ownRunner() {
  if (!runner)
    runner = cantFail(makeKernelRunner(memory));
  return *runner;
}

std::string KernelTest::target() { return ownRunner().target(); }

void KernelTest::launch(const Variant &variant, Dim3 grid, int block, int dynamicSharedBytes,
                        ArrayRef<TestArray> outputs, std::vector<KernelArgument> arguments,
                        std::vector<LaunchMap> maps) {
  const TestLaunch launch{variant.name() + ".cu",
                          variant.text(),
                          variant.name(),
                          grid,
                          static_cast<uint32_t>(block),
                          static_cast<uint32_t>(dynamicSharedBytes),
                          std::move(arguments),
                          std::move(maps),
                          cluster,
                          cooperative};
  std::vector<std::string> first;
  for (size_t way = 0; way < ownRunner().wayCount(); ++way) {
    for (const TestArray &tensor : outputs)
      fillWords(tensor.data, tensor.bytes().size(), poisonWord);
    ASSERT_EQ(printed(ownRunner().launch(launch, way)), "");
    std::vector<std::string> results;
    for (const TestArray &tensor : outputs)
      results.push_back(tensor.bytes().str());
    if (first.empty())
      first = results;
    EXPECT_TRUE(results == first) << "the result depends on the schedule";
  }
}

/// Half a unit in the last place of 1, and half the smallest number.
static std::pair<double, double> rounding(DType type) {
  switch (type) {
  case DType::F32:
    return {std::ldexp(1, -24), 0};
  case DType::F16:
    return {std::ldexp(1, -11), std::ldexp(1, -25)};
  default:
    return {std::ldexp(1, -8), 0};
  }
}

void KernelTest::expectClose(const TestArray &output, const Expectation &expected, double tolerance) {
  ASSERT_EQ(output.size, expected.size());
  const auto [relative, absolute] = rounding(output.type);
  size_t wrong = 0, firstWrong = 0;
  for (size_t i = 0; i < output.size; ++i) {
    const double allowed = tolerance * expected.magnitudes[i] + relative * std::abs(expected.values[i]) + absolute;
    const bool isRight =
        std::isnan(expected.values[i]) ? std::isnan(output[i]) : std::abs(output[i] - expected.values[i]) <= allowed;
    if (!isRight && wrong++ == 0)
      firstWrong = i;
  }
  EXPECT_EQ(wrong, 0u) << "first at " << firstWrong << ": expected " << expected.values[firstWrong] << ", got "
                       << output[firstWrong];
}

} // namespace kiln
