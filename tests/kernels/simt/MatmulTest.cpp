// gemm/simt_tiled.cuh, gemm/naive.cuh, gemv/simt_rows.cuh and gemv/simt_row.cuh against a product in double.

#include "kernels/KernelTest.h"
#include "kernels/simt/Cases.h"

namespace kiln {
namespace {

/// Another matrix of about the same size. Normalising rows of a few elements would magnify the rounding of their mean.
MatmulCase reshaped(const MatmulCase &one, function_ref<int(int)> upTo) {
  std::string cols = std::to_string(upTo(2 * one.kernel["kCols"]));
  std::string depth = std::to_string(15 + upTo(2 * one.kernel["kDepth"]));
  return {one.kernel.with({{"kCols", cols}, {"kDepth", depth}}), upTo(2 * one.rows)};
}

class MatmulTest : public KernelTest, public testing::WithParamInterface<MatmulCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int rows = GetParam().rows, cols = kernel["kCols"], depth = kernel["kDepth"];

  TestArray out = output(type, static_cast<size_t>(rows) * cols);

  /// Runs a kernel that computes layernorm(x) · weight^T + bias, and returns the expected result.
  Expectation runNormalized(Dim3 grid, int block) {
    TestArray x = random(type, static_cast<size_t>(rows) * depth, 2), normWeight = random(type, depth),
              normBias = random(type, depth), weight = random(type, static_cast<size_t>(cols) * depth),
              bias = random(type, cols);
    run(kernel, grid, block, 0, {out}, x, normWeight, normBias, weight, bias, out, rows);
    const Expectation normalized = layerNorm(x.values(), normWeight.values(), normBias.values());
    Expectation expected = matmul(normalized.values, weight.values(), rows, cols, depth, /*transposed=*/true);
    addBias(expected, bias.values());
    return expected;
  }

  Dim3 tiles() const { return {ceilDivide(cols, kernel["kTileCols"]), ceilDivide(rows, kernel["kTileRows"])}; }
  int tileThreads() const {
    return kernel["kTileRows"] / kernel["kThreadRows"] * (kernel["kTileCols"] / kernel["kThreadCols"]);
  }
};

using Tiled = MatmulTest;
TEST_P(Tiled, NormalizesMultipliesAndActivates) {
  Expectation expected = runNormalized(tiles(), tileThreads());
  apply(expected, geluTanh);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Tiled, testing::ValuesIn(withRandomShapes(tiledCases(), reshaped)));

using Naive = MatmulTest;
TEST_P(Naive, NormalizesMultipliesAndActivates) {
  const int threads = kernel["kThreads"];
  Expectation expected = runNormalized({ceilDivide(cols, 32), ceilDivide(rows, threads / 32)}, threads);
  apply(expected, geluTanh);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Naive, testing::ValuesIn(withRandomShapes(naiveCases(), reshaped)));

using FewRows = MatmulTest;
TEST_P(FewRows, NormalizesAndMultiplies) {
  const Expectation expected =
      runNormalized({ceilDivide(cols, kernel["kWarps"] * kernel["kColsPerWarp"])}, 32 * kernel["kWarps"]);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, FewRows, testing::ValuesIn(withRandomShapes(fewRowsCases(), reshaped)));

using NormalizedRow = MatmulTest;
TEST_P(NormalizedRow, NormalizesAndMultiplies) {
  const Dim3 grid{ceilDivide(cols, kernel["kColsPerBlock"]), static_cast<uint32_t>(rows)};
  expectClose(out, runNormalized(grid, 32 * kernel["kWarps"]));
}
INSTANTIATE_TEST_SUITE_P(Kernels, NormalizedRow, testing::ValuesIn(withRandomShapes(normalizedRowCases(), reshaped)));

/// The kernels that add a bias and a residual to a product.
struct ResidualTest : MatmulTest {
  void runAndExpect(Dim3 grid, int block, bool transposed) {
    const size_t size = static_cast<size_t>(rows) * cols;
    TestArray x = random(type, static_cast<size_t>(rows) * depth),
              weight = random(type, static_cast<size_t>(depth) * cols), bias = random(type, cols),
              skip = random(type, size);
    run(kernel, grid, block, 0, {out}, x, weight, bias, skip, out, rows);
    Expectation expected = matmul(x.values(), weight.values(), rows, cols, depth, transposed);
    addBias(expected, bias.values());
    addElements(expected, skip.values());
    expectClose(out, expected);
  }
};

using Row = ResidualTest;
TEST_P(Row, MultipliesAndAdds) {
  const Dim3 grid{ceilDivide(cols, kernel["kColsPerBlock"]), static_cast<uint32_t>(rows)};
  runAndExpect(grid, 32 * kernel["kWarps"], /*transposed=*/true);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Row, testing::ValuesIn(withRandomShapes(rowCases(), reshaped)));

using TiledUntransposed = ResidualTest;
TEST_P(TiledUntransposed, MultipliesAndAdds) { runAndExpect(tiles(), tileThreads(), /*transposed=*/false); }
INSTANTIATE_TEST_SUITE_P(Kernels, TiledUntransposed, testing::ValuesIn(withRandomShapes(residualCases(), reshaped)));

/// The products of unfused attention: one extent is known only at run time, and the triangle above the diagonal is left
/// out.
class BatchedTest : public KernelTest, public testing::WithParamInterface<Variant> {
protected:
  const Variant &kernel = GetParam();
  const DType type = kernel.element();
  const int heads = 3;
  int tokens = 71;

  Dim3 tiles(int cols) const {
    return {ceilDivide(cols, kernel["kTileCols"]), ceilDivide(tokens, kernel["kTileRows"]),
            static_cast<uint32_t>(heads)};
  }
  int tileThreads() const {
    return kernel["kTileRows"] / kernel["kThreadRows"] * (kernel["kTileCols"] / kernel["kThreadCols"]);
  }
  static ArrayRef<double> head(ArrayRef<double> all, int h, size_t size) { return all.slice(h * size, size); }
};

using Scores = BatchedTest;
TEST_P(Scores, AreComputedUpToTheDiagonal) {
  const int headSize = kernel["kDepth"];
  const size_t operand = static_cast<size_t>(tokens) * headSize, square = static_cast<size_t>(tokens) * tokens;
  TestArray q = random(type, heads * operand), k = random(type, heads * operand), out = output(type, heads * square);
  run(kernel, tiles(tokens), tileThreads(), 0, {out}, q, k, out, tokens);

  const std::vector<double> queries = q.values(), keys = k.values();
  const int tileRows = kernel["kTileRows"], tileCols = kernel["kTileCols"];
  size_t unwritten = 0;
  for (int h = 0; h < heads; ++h) {
    const Expectation all =
        matmul(head(queries, h, operand), head(keys, h, operand), tokens, tokens, headSize, /*transposed=*/true);
    for (int row = 0; row < tokens; ++row)
      for (int col = 0; col < tokens; ++col) {
        const size_t at = row * tokens + col;
        const double got = out[h * square + at], allowed = 1e-6 * all.magnitudes[at] + 4e-3 * std::abs(all.values[at]);
        const int lastRow = std::min((row / tileRows + 1) * tileRows, tokens) - 1;
        if (col / tileCols * tileCols > lastRow)
          unwritten += std::isnan(got);
        else
          EXPECT_NEAR(got, 0.125 * all.values[at], allowed);
      }
  }
  EXPECT_GT(unwritten, 0u) << "tiles above the diagonal are skipped";
}
INSTANTIATE_TEST_SUITE_P(Kernels, Scores, testing::ValuesIn(scoresCases()));

/// Kernels that compute the whole square.
class WholeScoresTest : public BatchedTest {
protected:
  void runAndExpect(Dim3 grid) {
    const int headSize = kernel["kDepth"];
    const size_t operand = static_cast<size_t>(tokens) * headSize, square = static_cast<size_t>(tokens) * tokens;
    TestArray q = random(type, heads * operand), k = random(type, heads * operand), out = output(type, heads * square);
    run(kernel, grid, kernel["kThreads"], 0, {out}, q, k, out, tokens);
    const std::vector<double> queries = q.values(), keys = k.values();
    Expectation expected(out.size);
    for (int h = 0; h < heads; ++h) {
      const Expectation one =
          matmul(head(queries, h, operand), head(keys, h, operand), tokens, tokens, headSize, /*transposed=*/true);
      for (size_t i = 0; i < square; ++i) {
        expected.values[h * square + i] = 0.125 * one.values[i];
        expected.magnitudes[h * square + i] = 0.125 * one.magnitudes[i];
      }
    }
    expectClose(out, expected);
  }
};

using NaiveScores = WholeScoresTest;
TEST_P(NaiveScores, AreProductsOfEveryPair) {
  runAndExpect({ceilDivide(tokens, 32), ceilDivide(tokens, kernel["kThreads"] / 32), static_cast<uint32_t>(heads)});
}
INSTANTIATE_TEST_SUITE_P(Kernels, NaiveScores, testing::ValuesIn(naiveScoresCases()));

using ReducedScores = WholeScoresTest;
TEST_P(ReducedScores, AreProductsOfEveryPair) {
  tokens = 19;
  const uint32_t extent = tokens;
  runAndExpect({extent, extent, static_cast<uint32_t>(heads)});
}
INSTANTIATE_TEST_SUITE_P(Kernels, ReducedScores, testing::ValuesIn(reducedScoresCases()));

/// Kernels that compute only up to the diagonal, and write -inf above it.
class MaskedScoresTest : public BatchedTest {
protected:
  void runAndExpect(Dim3 grid, int threads) {
    const int headSize = kernel["kDepth"];
    const size_t operand = static_cast<size_t>(tokens) * headSize, square = static_cast<size_t>(tokens) * tokens;
    TestArray q = random(type, heads * operand), k = random(type, heads * operand), out = output(type, heads * square);
    run(kernel, grid, threads, 0, {out}, q, k, out, tokens);
    const std::vector<double> queries = q.values(), keys = k.values();
    for (int h = 0; h < heads; ++h) {
      const Expectation one =
          matmul(head(queries, h, operand), head(keys, h, operand), tokens, tokens, headSize, /*transposed=*/true);
      for (size_t i = 0; i < square; ++i) {
        const double got = out[h * square + i];
        if (i % tokens > i / tokens)
          EXPECT_EQ(got, -INFINITY);
        else
          EXPECT_NEAR(got, 0.125 * one.values[i], 1e-6 * one.magnitudes[i] + 4e-3 * std::abs(one.values[i]));
      }
    }
  }
};

using TriangularNaive = MaskedScoresTest;
TEST_P(TriangularNaive, AreMasked) {
  const int threads = kernel["kThreads"];
  runAndExpect({ceilDivide(tokens, 32), ceilDivide(tokens, threads / 32), static_cast<uint32_t>(heads)}, threads);
}
INSTANTIATE_TEST_SUITE_P(Kernels, TriangularNaive, testing::ValuesIn(triangularNaiveCases()));

using TriangularRegisters = MaskedScoresTest;
TEST_P(TriangularRegisters, AreMasked) {
  tokens = 131;
  runAndExpect({ceilDivide(tokens, 128), ceilDivide(tokens, 128), static_cast<uint32_t>(heads)}, 256);
}
INSTANTIATE_TEST_SUITE_P(Kernels, TriangularRegisters, testing::ValuesIn(triangularRegisterCases()));

using TriangularTiled = MaskedScoresTest;
TEST_P(TriangularTiled, AreMasked) { runAndExpect(tiles(tokens), tileThreads()); }
INSTANTIATE_TEST_SUITE_P(Kernels, TriangularTiled, testing::ValuesIn(triangularTiledCases()));

using Values = BatchedTest;
TEST_P(Values, IgnoreWhatIsAboveTheDiagonalTile) {
  const int headSize = kernel["kCols"], tileRows = kernel["kTileRows"];
  const size_t operand = static_cast<size_t>(tokens) * headSize, square = static_cast<size_t>(tokens) * tokens;
  TestArray p = random(type, heads * square), v = random(type, heads * operand), out = output(type, heads * operand);
  for (int row = 0; row < heads * tokens; ++row)
    for (int col = row % tokens + 1; col < tokens; ++col)
      p.set(static_cast<size_t>(row) * tokens + col, col / tileRows > row % tokens / tileRows ? NAN : 0);
  run(kernel, tiles(headSize), tileThreads(), 0, {out}, p, v, out, tokens);

  std::vector<double> probabilities = p.values();
  for (double &x : probabilities)
    x = std::isnan(x) ? 0 : x;
  const std::vector<double> values = v.values();
  Expectation expected(out.size);
  for (int h = 0; h < heads; ++h) {
    const Expectation one = matmul(head(probabilities, h, square), head(values, h, operand), tokens, headSize, tokens,
                                   /*transposed=*/false);
    std::copy(one.values.begin(), one.values.end(), expected.values.begin() + h * operand);
    std::copy(one.magnitudes.begin(), one.magnitudes.end(), expected.magnitudes.begin() + h * operand);
  }
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Values, testing::ValuesIn(valuesCases()));

} // namespace
} // namespace kiln
