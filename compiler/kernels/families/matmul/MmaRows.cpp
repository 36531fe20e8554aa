// Matrix products of the mma family for few rows, in decode with a batch or for a short prompt: the weight is read once
// and goes straight from memory to tensor cores.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

#include <cmath>

namespace kiln {

/// One row is faster without tensor cores, by gemv_row_simt.
static bool acceptsMmaRows(const Op &op, const Target &target, const DimBinding &upper) {
  const Op &product = *anchor(op);
  if (target.computeCapability() < 80 || !product.is(OpKind::matmul) || !product.boolAttribute("transpose_b") ||
      usesGroups(op))
    return false;
  const Type &x = product.operand(0)->type, &weight = product.operand(1)->type;
  bool is16Bit = weight.dtype == DType::BF16 || weight.dtype == DType::F16;
  std::optional<int64_t> depth = x.lastDim().asConstant();
  int64_t rows = valueAt(matmulProblem(op).rows, upper);
  return is16Bit && (hasFewTokens(op, x) || rows <= 64) && depth && *depth % 8 == 0 && product.operand(1)->isWeight() &&
         rows > 1;
}

/// Shared memory, as in the template.
static int64_t mmaRowsShared(const Tile &tile) {
  int64_t sums = 4 * setting(tile, "warps_k") * (16 * setting(tile, "warps_n") + 4);
  return llvm::alignTo(setting(tile, "rows") * (2 * (setting(tile, "tile_depth") + 32) + sums + 8), 16);
}

static std::vector<Tile> mmaRowsConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  MatmulProblem problem = matmulProblem(op);
  int64_t depth = valueAt(problem.depth, upper);
  int64_t rows = std::clamp<int64_t>(llvm::PowerOf2Ceil(valueAt(problem.rows, upper)), 8, 64);
  struct Shape {
    int64_t warpsN, warpsK;
  };
  static constexpr Shape shapes[] = {{1, 4}, {1, 8}, {1, 16}, {2, 4}, {2, 8}, {2, 2}, {4, 2}, {4, 4}, {8, 1}, {8, 2}};
  std::vector<Tile> tiles;
  for (const Shape &shape : shapes)
    for (int64_t unroll : {2, 4}) {
      // With many warps, each has too few registers for this many weights.
      if (unroll > 2 && shape.warpsN * shape.warpsK > 8)
        continue;
      int64_t round = 32 * unroll * shape.warpsK;
      auto make = [&](int64_t tileDepth) -> Tile {
        return {{"rows", rows},
                {"tile_depth", tileDepth},
                {"unroll", unroll},
                {"warps_k", shape.warpsK},
                {"warps_n", shape.warpsN}};
      };
      // The part of the depth that does not fit in shared memory is staged later.
      int64_t room = (target.sharedPerBlock - mmaRowsShared(make(0))) / (2 * rows) / round * round;
      if (int64_t tileDepth = std::min<int64_t>(room, llvm::alignTo(depth, round)); tileDepth > 0)
        tiles.push_back(make(tileDepth));
    }
  return tiles;
}

/// The conditions that the template asserts.
static bool isSoundMmaRows(const Op &, const Tile &tile) {
  const int64_t rows = setting(tile, "rows"), unroll = setting(tile, "unroll");
  return isPowerOfTwo(rows) && rows >= 8 && rows <= 64 && unroll % 2 == 0 && unroll <= mostUnroll &&
         setting(tile, "tile_depth") % (32 * unroll * setting(tile, "warps_k")) == 0;
}

static Launch launchMmaRows(const Op &op, const Tile &tile) {
  return {.grid = {ceilDiv(matmulProblem(op).cols, Expr(16 * setting(tile, "warps_n"))), Expr(1), Expr(1)},
          .threads = 32 * setting(tile, "warps_n") * setting(tile, "warps_k"),
          .dynamicShared = mmaRowsShared(tile)};
}

static double estimateMmaRows(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double rows = valueAt(problem.rows, dims), cols = valueAt(problem.cols, dims), depth = valueAt(problem.depth, dims);
  double perPass = static_cast<double>(setting(tile, "rows")), passes = std::ceil(rows / perPass);
  double warpsN = static_cast<double>(setting(tile, "warps_n")), warpsK = static_cast<double>(setting(tile, "warps_k"));
  double warpRound = 32.0 * static_cast<double>(setting(tile, "unroll")),
         rounds = std::ceil(depth / (warpRound * warpsK));
  BlockCost cost;
  cost.blocks = std::ceil(cols / (16 * warpsN));
  cost.threads = 32 * setting(tile, "warps_n") * setting(tile, "warps_k");
  cost.l2BytesPerBlock = perPass * depth * 2;
  cost.memoryBytes = cols * depth * 2;
  // This round and, if there is one, the next.
  cost.bytesInFlight = static_cast<int64_t>(16 * warpsN * 2 * std::min(depth, 2 * warpRound * warpsK));
  cost.sharedBytes = mmaRowsShared(tile);
  double reading = estimateSeconds(cost, target) - target.launchSeconds;
  // Instructions of a multiprocessor's blocks: every block stages and normalises all rows itself, a step reads 8 rows
  // with one load for two products, and sums of warps go through shared memory.
  double perMultiprocessor = std::ceil(cost.blocks / target.multiprocessors);
  double staging = perPass * depth * 12, multiplying = warpsN * depth / 32 * (perPass / 8 * 5 + 6) * 32;
  double adding = perPass * 16 * warpsN * warpsK * 6;
  double lanesPerSecond = target.f32Rate / 2 / target.multiprocessors;
  double working = perMultiprocessor * (staging + multiplying + adding) / lanesPerSecond;
  // A round waits for its bytes and for neighbouring warps; a block that starts later waits again.
  double waiting = target.times.mmaRows.round * rounds * std::ceil(perMultiprocessor / 4);
  return target.launchSeconds + passes * (reading + working + waiting);
}

const KernelFamily mmaRowsFamily = {
    .name = "gemv_mma",
    .summary = "matrix product of few rows: the weight streamed once through tensor cores",
    .header = "gemv/mma_rows.cuh",
    .body = "mmaRows",
    .form = KernelForm::Matmul,
    .waitsItself = true,
    .readsAhead = true,
    .rowsAtOnce = 8,
    .accepts = acceptsMmaRows,
    .configurations = mmaRowsConfigurations,
    .isSound = isSoundMmaRows,
    .launch = launchMmaRows,
    .estimate = estimateMmaRows,
};

} // namespace kiln
