// gemm/mma_fragments.cuh against a product in double.

#include "kernels/KernelTest.h"
#include "kernels/mma/Cases.h"

#include <cmath>

namespace kiln {
namespace {

/// The products of three heads over 37 tokens.
class FragmentsTest : public KernelTest, public testing::WithParamInterface<Variant> {
protected:
  const Variant &kernel = GetParam();
  const DType type = kernel.element();
  static constexpr int heads = 3, tokens = 37;

  /// Numbers that tf32 represents exactly: they use half of its 11 bits.
  TestArray factors(size_t size) {
    TestArray tensor = random(type, size);
    for (size_t i = 0; i < size; ++i)
      tensor.set(i, std::round(tensor[i] * 16) / 16);
    return tensor;
  }

  void runAndExpect(int cols, int depth, double scale, bool isTransposed) {
    const size_t left = static_cast<size_t>(tokens) * depth, right = static_cast<size_t>(cols) * depth,
                 result = static_cast<size_t>(tokens) * cols;
    TestArray a = factors(heads * left), b = factors(heads * right), out = output(type, heads * result);
    const int warps = kernel["kWarps"];
    run(kernel, {ceilDivide(cols, 32), ceilDivide(tokens, 16 * warps), static_cast<uint32_t>(heads)}, 32 * warps, 0,
        {out}, a, b, out, tokens);
    const std::vector<double> x = a.values(), y = b.values();
    Expectation expected(out.size);
    for (int h = 0; h < heads; ++h) {
      const Expectation one = matmul(ArrayRef(x).slice(h * left, left), ArrayRef(y).slice(h * right, right), tokens,
                                     cols, depth, isTransposed);
      for (size_t i = 0; i < result; ++i) {
        expected.values[h * result + i] = scale * one.values[i];
        expected.magnitudes[h * result + i] = scale * one.magnitudes[i];
      }
    }
    expectClose(out, expected);
  }
};

using FragmentScores = FragmentsTest;
TEST_P(FragmentScores, AreProductsOfEveryPair) { runAndExpect(tokens, kernel["kDepth"], 0.125, /*isTransposed=*/true); }
INSTANTIATE_TEST_SUITE_P(Kernels, FragmentScores, testing::ValuesIn(mmaFragmentScoresCases()));

using FragmentValues = FragmentsTest;
TEST_P(FragmentValues, AreSumsOverTokens) { runAndExpect(kernel["kCols"], tokens, 1, /*isTransposed=*/false); }
INSTANTIATE_TEST_SUITE_P(Kernels, FragmentValues, testing::ValuesIn(mmaFragmentValuesCases()));

} // namespace
} // namespace kiln
