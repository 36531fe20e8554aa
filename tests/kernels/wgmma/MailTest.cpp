// Products whose blocks compute operands of rows for each other (templates/row_mail.cuh), against products in double,
// and against blocks that compute all they need themselves.

#include "kernels/NormedProduct.h"
#include "kernels/wgmma/ProductTest.h"

namespace kiln {
namespace {

/// Launches of one step: they share the mail, which is zero before the first of them.
class MailTest : public ProductTest {
protected:
  using ProductTest::ProductTest;

  virtual void multiply(const TestArray &out) = 0;

  NormedProduct normed{x, weight, bias, rows, cols, depth};
  TestArray means = output(DType::F32, x.size / 8), squares = output(DType::F32, x.size / 8);
  TestArray sums = output(DType::F32, cols), mail = zeros(DType::I32, 4 * (static_cast<size_t>(rows) + 1));

  void fill() {
    TestArray unused = output(DType::F32, rows);
    normed.fill(unused, unused, sums);
    NormedProduct::fillGroups(x, depth, type, means, squares);
  }

  TestArray product(bool waits) {
    cooperative = waits;
    TestArray out = output(DType::F32, static_cast<size_t>(rows) * cols);
    multiply(out);
    return out;
  }

  /// Blocks of an ordinary launch see nothing of each other when they are emulated.
  void expectProduct() {
    const TestArray out = product(/*waits=*/true);
    normed.expectNoWorse(out);
    EXPECT_EQ(product(/*waits=*/false).bytes(), out.bytes());
  }

  /// What earlier launches have left in the mail is not taken for what is posted now.
  void expectProducts() {
    normed.makeKinds();
    fill();
    expectProduct();
    for (size_t i = 0; i < x.size; ++i)
      x.set(i, 3 - x[i]);
    fill();
    expectProduct();
  }
};

class WgmmaMail : public MailTest, public testing::WithParamInterface<WgmmaMatmulCase> {
protected:
  WgmmaMail() : MailTest(GetParam().kernel, GetParam().rows) {}

  void multiply(const TestArray &out) override {
    const int m = kernel["kTileM"], n = kernel["kTileN"], stages = kernel["kStages"], parts = kernel["kParts"];
    const int teams = kernel["kTeams"], clusterM = kernel["kClusterM"], clusterN = kernel["kClusterN"];
    cluster = static_cast<uint32_t>(clusterM * clusterN * parts);
    const uint32_t tiles = ceilDivide(cols, n * clusterN) * ceilDivide(rows, m * clusterM);
    const uint32_t clusters = parts > 1 ? tiles : std::min(static_cast<uint32_t>(GetParam().blocks) / cluster, tiles);
    const int ofParts = parts > 1 ? 4 * m * n / parts * (parts - 1) + 16 : 1;
    const int stageBytes = (128 * stages * (m + n) + 8 * (2 * stages + teams) + ofParts + 15) / 16 * 16;
    const int consumers = kernel["kConsumers"];
    const bool holdsRows = consumers == 1 || (consumers == 2 && m / 2 * n / 128 <= 128 && depth <= 1024);
    const bool copiesRows = kernel["kReadsRows"] && teams == 1 && !holdsRows;
    const int bytes = stageBytes + (copiesRows ? 12 * depth : 16) + teams * (8 * m + 16) + 32;
    run(kernel, {cluster * clusters}, 128 * (1 + consumers * teams), (bytes + 1023) / 1024 * 1024, {out},
        mappedX(rows, m / clusterN), mappedWeight(n, clusterM), x, means, squares, sums, bias, out, mail, rows);
  }
};

TEST_P(WgmmaMail, SharesStatisticsOfRows) { expectProducts(); }
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaMail, testing::ValuesIn(wgmmaMailCases()));

class WgmmaRowsMail : public MailTest, public testing::WithParamInterface<WgmmaRowsCase> {
protected:
  WgmmaRowsMail() : MailTest(GetParam().kernel, GetParam().rows) {}

  void multiply(const TestArray &out) override {
    const int parts = kernel["kParts"], groups = kernel["kGroups"], stages = kernel["kStages"];
    const int n = kernel["kTileN"], most = kernel["kRows"], rowStages = kernel["kRowStages"];
    const int sums = static_cast<int>(ceilDivide(most, parts)) * (4 * parts * groups * (n + 4) + 16);
    const int bytes =
        128 * groups * (rowStages * most + stages * n) + sums + 8 * (2 * groups * stages + groups + 3) + 24;
    MappedArray rowsOfX = mappedX(rows, most);
    const int steps = static_cast<int>(ceilDivide(depth, 64));
    if (const auto all = ceilDivide(steps, parts * groups); rowStages == static_cast<int>(all) && depth % 64 == 0) {
      rowsOfX.extents = {64, rowsOfX.extents[1], static_cast<uint64_t>(steps)};
      rowsOfX.strides.push_back(128);
      rowsOfX.box.push_back(all);
    }
    cluster = static_cast<uint32_t>(parts);
    run(kernel, {ceilDivide(cols, kernel["kTurns"] * n) * cluster, ceilDivide(rows, most)}, 128 * (groups + 1),
        (bytes + 1023) / 1024 * 1024, {out}, rowsOfX, mappedWeight(n), x, means, squares, this->sums, bias, out, mail,
        rows);
  }
};

TEST_P(WgmmaRowsMail, SharesStatisticsOfRows) { expectProducts(); }
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaRowsMail, testing::ValuesIn(wgmmaRowsMailCases()));

} // namespace
} // namespace kiln
