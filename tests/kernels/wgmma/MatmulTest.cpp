// gemm/wgmma_tiled.cuh and gemm/wgmma_score.cuh against products in double.

#include "kernels/NormedProduct.h"
#include "kernels/ScoreTest.h"
#include "kernels/wgmma/ProductTest.h"

namespace kiln {
namespace {

class WgmmaMatmulTest : public ProductTest, public testing::WithParamInterface<WgmmaMatmulCase> {
protected:
  WgmmaMatmulTest() : ProductTest(GetParam().kernel, GetParam().rows) {}

  void SetUp() override {
    ProductTest::SetUp();
    cluster = clusterOf(kernel);
  }

  static uint32_t clusterOf(const Variant &by) {
    return static_cast<uint32_t>(by["kClusterM"] * by["kClusterN"] * by["kParts"]);
  }

  /// Boxes are what a block copies of a tile.
  MappedArray mappedX() const { return mappedX(kernel); }
  MappedArray mappedX(const Variant &by) const { return ProductTest::mappedX(rows, by["kTileM"] / by["kClusterN"]); }
  MappedArray mappedWeight() const { return mappedWeight(kernel); }
  MappedArray mappedWeight(const Variant &by) const { return ProductTest::mappedWeight(by["kTileN"], by["kClusterM"]); }

  Dim3 grid() const { return grid(kernel); }
  Dim3 grid(const Variant &by) const {
    const uint32_t tiles =
        ceilDivide(cols, by["kTileN"] * by["kClusterN"]) * ceilDivide(rows, by["kTileM"] * by["kClusterM"]);
    const uint32_t blocks = clusterOf(by);
    return {blocks * (by["kParts"] > 1 ? tiles : std::min(static_cast<uint32_t>(GetParam().blocks) / blocks, tiles))};
  }
  int threads() const { return threads(kernel); }
  static int threads(const Variant &by) { return 128 * (1 + by["kConsumers"] * by["kTeams"]); }
  int sharedBytes() const { return sharedBytes(kernel); }
  /// Stages, barriers, and the sums of other parts, aligned.
  static int sharedBytes(const Variant &by) {
    const int stages = by["kStages"], parts = by["kParts"], sums = by["kTileM"] * by["kTileN"] / parts * (parts - 1);
    const int bytes = 128 * stages * (by["kTileM"] + by["kTileN"]) + 8 * (2 * stages + by["kTeams"]) +
                      (parts > 1 ? 4 * sums + 16 : 0);
    return (bytes + 1023) / 1024 * 1024;
  }
};

using WgmmaActivation = WgmmaMatmulTest;
TEST_P(WgmmaActivation, MultipliesAndActivates) {
  TestArray out = output(type, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {out}, mappedX(), mappedWeight(), bias, out, rows);
  Expectation expected = product();
  apply(expected, geluTanh);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaActivation,
                         testing::ValuesIn(withRandomShapes(wgmmaActivationCases(), reshaped)));

/// Tiles that cut the depth into equally many pieces, whether blocks share them or one has all.
using WgmmaRanges = WgmmaMatmulTest;
TEST_P(WgmmaRanges, HaveTheBitsOfParts) {
  TestArray all = output(type, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {all}, mappedX(), mappedWeight(), bias, all, rows);
  const std::string ranges = std::to_string(kernel["kParts"]);
  const std::array<const char *, 4> others[] = {{"64", "64", "1", "2"},
                                                {"128", "96", "2", "1"},
                                                {"256", "32", "2", "1"},
                                                {"128", "80", "2", "1"}}; // kTileM, kTileN, kConsumers, kTeams
  for (const auto &[m, n, consumers, teams] : others) {
    const Variant by = kernel.with({{"kTileM", m},
                                    {"kTileN", n},
                                    {"kConsumers", consumers},
                                    {"kTeams", teams},
                                    {"kParts", "1"},
                                    {"kRanges", ranges}});
    cluster = clusterOf(by);
    TestArray own = output(type, static_cast<size_t>(rows) * cols);
    run(by, grid(by), threads(by), sharedBytes(by), {own}, mappedX(by), mappedWeight(by), bias, own, rows);
    EXPECT_EQ(own.bytes(), all.bytes()) << "tiles of " << m << " x " << n;
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaRanges, testing::ValuesIn(wgmmaPartsCases()));

using WgmmaResidual = WgmmaMatmulTest;
TEST_P(WgmmaResidual, MultipliesAndAdds) {
  const size_t size = static_cast<size_t>(rows) * cols;
  TestArray skip = random(type, size), out = output(DType::F32, size);
  run(kernel, grid(), threads(), sharedBytes(), {out}, mappedX(), mappedWeight(), bias, skip, out, rows);
  Expectation expected = product();
  addElements(expected, skip.values());
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaResidual, testing::ValuesIn(withRandomShapes(wgmmaResidualCases(), reshaped)));

/// Blocks whose tiles have rows in common store each element once in every launch.
using WgmmaOnce = WgmmaMatmulTest;
TEST_P(WgmmaOnce, StoresEachElement) {
  TestArray counts = output(DType::I32, static_cast<size_t>(rows) * cols);
  for (size_t i = 0; i < counts.size; ++i)
    counts.set(i, 0);
  run(kernel, grid(), threads(), sharedBytes(), {}, mappedX(), mappedWeight(), counts, rows);
  const std::vector<double> stores = counts.values();
  EXPECT_GT(stores[0], 0);
  EXPECT_EQ(stores, std::vector<double>(stores.size(), stores[0]));
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaOnce, testing::ValuesIn(withRandomShapes(wgmmaOnceCases(), reshaped)));

using WgmmaNorm = WgmmaMatmulTest;
TEST_P(WgmmaNorm, NormalizesSums) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  normed.makeKinds();
  TestArray mean = output(DType::F32, rows), rstd = output(DType::F32, rows), sums = output(DType::F32, cols);
  normed.fill(mean, rstd, sums);
  TestArray out = output(DType::F32, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {out}, mappedX(), mappedWeight(), mean, rstd, sums, bias, out, rows);
  normed.expectNoWorse(out);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaNorm, testing::ValuesIn(withRandomShapes(wgmmaNormCases(), reshaped)));

using WgmmaGroups = WgmmaMatmulTest;
TEST_P(WgmmaGroups, MergesAndHandsOutStatistics) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  auto launch = [&](NormedProduct::Groups g) {
    run(kernel, grid(), threads(), sharedBytes(), g.outputs(), mappedX(), mappedWeight(), g.means, g.squares, g.sums,
        bias, g.out, g.outMeans, g.outSquares, rows);
  };
  normed.expectGroups(type, [&](size_t size) { return output(DType::F32, size); }, launch);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaGroups, testing::ValuesIn(wgmmaGroupsCases()));

/// Other rows and depth: the columns are those of the heads.
WgmmaMatmulCase reshapedHeads(const WgmmaMatmulCase &one, function_ref<int(int)> upTo) {
  const int tokens = upTo(one.rows / 2);
  return {one.kernel.with({{"kDepth", otherDepth(one, upTo)}}), 2 * tokens, one.blocks};
}

/// Two sequences, whose tokens come behind those that the cache has.
class WgmmaHeads : public WgmmaMatmulTest {
protected:
  const int heads = kernel["kHeads"], headSize = kernel["kHeadSize"], capacity = kernel["kCapacity"];
  int batch = 2, tokens = rows / batch;
  const std::vector<int> positions = {3, capacity - tokens};

  /// What part 0, 1 or 2 of the product writes to a tensor [batch, heads, length, headSize] of NaN, from place
  /// first[b] on.
  Expectation part(const Expectation &product, int which, int length, const std::vector<int> &first) const {
    Expectation out(static_cast<size_t>(batch) * heads * length * headSize);
    std::fill(out.values.begin(), out.values.end(), NAN);
    const int width = heads * headSize;
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < width; ++col) {
        const int b = row / tokens, place = first[b] + row % tokens;
        const size_t from = static_cast<size_t>(row) * cols + which * width + col;
        const size_t to =
            ((static_cast<size_t>(b) * heads + col / headSize) * length + place) * headSize + col % headSize;
        out.values[to] = product.values[from];
        out.magnitudes[to] = product.magnitudes[from];
      }
    return out;
  }
};

TEST_P(WgmmaHeads, SplitsIntoHeadsAndCache) {
  const size_t inCache = static_cast<size_t>(batch) * heads * capacity * headSize;
  TestArray q = output(type, static_cast<size_t>(rows) * heads * headSize);
  TestArray keyCache = output(type, inCache), valueCache = output(type, inCache), places = integers(positions);
  run(kernel, grid(), threads(), sharedBytes(), {q, keyCache, valueCache}, mappedX(), mappedWeight(), bias, places, q,
      keyCache, valueCache, batch, tokens);
  const Expectation expected = product();
  expectClose(q, part(expected, 0, tokens, {0, 0}));
  expectClose(keyCache, part(expected, 1, capacity, positions));
  expectClose(valueCache, part(expected, 2, capacity, positions));
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaHeads, testing::ValuesIn(withRandomShapes(wgmmaHeadsCases(), reshapedHeads)));

/// The columns are a vocabulary: those of the weight's padding, which are NaN here, are no tokens.
class WgmmaScore : public WgmmaMatmulTest {
protected:
  ScoredRows runOn(Dim3 blocks) {
    ScoredRows scored{integers(someTargets(rows, cols)), output(DType::F32, rows), output(DType::I32, rows),
                      output(DType::F32, rows)};
    const size_t tiles = ceilDivide(cols, kernel["kTileN"]), teams = kernel["kTeams"];
    const size_t partsOfRow = 3 * teams <= tiles ? 3 * teams : std::min(teams, tiles);
    TestArray parts = output(DType::F32, rows * partsOfRow * 4);
    TestArray arrivals = zeros(DType::I32, ceilDivide(rows, kernel["kTileM"]) * kernel["kConsumers"] * 4);
    run(kernel, blocks, threads(), sharedBytes(), scored.outputs(), mappedX(), mappedWeight(), scored.targets,
        scored.logProbability, scored.best, scored.bestLogProbability, parts, arrivals, rows);
    EXPECT_EQ(arrivals.values(), std::vector<double>(arrivals.size, 0));
    return scored;
  }

  void runAndExpect() {
    ScoredRows scored = runOn(grid());
    scored.expectScoresOf(matmul(x.values(), weight.values(), rows, cols, depth, /*transposed=*/true));
  }
};

/// How many blocks a stripe of rows has depends on their number.
TEST_P(WgmmaScore, HasTheSameBitsOnAnyNumberOfBlocks) {
  const ScoredRows one = runOn({1});
  for (uint32_t blocks : {grid().x, 2u, 5u, 8u}) {
    const ScoredRows scored = runOn({blocks});
    EXPECT_EQ(scored.logProbability.values(), one.logProbability.values()) << blocks;
    EXPECT_EQ(scored.bestLogProbability.values(), one.bestLogProbability.values()) << blocks;
  }
}

TEST_P(WgmmaScore, IsTheLogProbabilityOfTheTarget) { runAndExpect(); }

TEST_P(WgmmaScore, TakesLargeLogits) {
  for (size_t i = 0; i < x.size; ++i)
    x.set(i, x[i] * 100);
  runAndExpect();
}

TEST_P(WgmmaScore, HasTheFirstOfEqualsAsBest) {
  repeatColumns(weight, cols, depth);
  runAndExpect();
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaScore, testing::ValuesIn(withRandomShapes(wgmmaScoreCases(), reshaped)));

} // namespace
} // namespace kiln
