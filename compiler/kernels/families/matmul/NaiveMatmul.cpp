// Matrix products at the lowest rung: one thread per output, operands from global memory. Used only on request.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

/// A warp computes 32 columns of a row.
static Launch launchNaive(const Op &op, const Tile &tile) {
  MatmulProblem problem = matmulProblem(op);
  int64_t threads = setting(tile, "threads");
  return {.grid = {ceilDiv(problem.cols, Expr(32)), ceilDiv(problem.rows, Expr(threads / 32)), problem.batch},
          .threads = threads};
}

static std::vector<Tile> naiveConfigurations(const Op &, const Target &, const DimBinding &) {
  return {{{"threads", 128}}, {{"threads", 256}}, {{"threads", 512}}, {{"threads", 1024}}};
}

static bool isSoundNaive(const Op &, const Tile &tile) { return setting(tile, "threads") % 32 == 0; }

static double estimateNaive(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double depth = valueAt(problem.depth, dims), rowsPerBlock = setting(tile, "threads") / 32;
  BlockCost cost;
  cost.blocks = std::ceil(static_cast<double>(valueAt(problem.cols, dims)) / 32) *
                std::ceil(static_cast<double>(valueAt(problem.rows, dims)) / rowsPerBlock) *
                static_cast<double>(valueAt(problem.batch, dims));
  cost.threads = setting(tile, "threads");
  cost.flopsPerBlock = 2 * 32 * rowsPerBlock * depth;
  // Each FMA needs two loads; a block's columns come from L2 once, and each of its rows once.
  cost.efficiency = 0.05;
  cost.l2BytesPerBlock = (32 + rowsPerBlock) * depth * 4;
  cost.memoryBytes = bytesMovedAt(op, dims);
  return estimateSeconds(cost, target);
}

const KernelFamily naiveMatmulFamily = {
    .name = "gemm_naive",
    .summary = "matrix product, a thread an output, operands from global memory",
    .header = "gemm/naive.cuh",
    .body = "naiveMatmul",
    .form = KernelForm::Matmul,
    .takesEitherOrder = true,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &,
                  const DimBinding &) { return anchor(op)->is(OpKind::matmul) && !usesGroups(op); },
    .configurations = naiveConfigurations,
    .isSound = isSoundNaive,
    .launch = launchNaive,
    .estimate = estimateNaive,
};

const KernelFamily naiveBatchedFamily = {
    .name = "gemm_batched_naive",
    .summary = "one product a head, a thread an output: QK^T and PV of attention that is not fused",
    .header = "gemm/naive.cuh",
    .body = "naiveMatmul",
    .form = KernelForm::Batched,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return op.is(OpKind::qk) || op.is(OpKind::pv); },
    .configurations = naiveConfigurations,
    .isSound = isSoundNaive,
    .launch = launchNaive,
    .estimate = estimateNaive,
};

const KernelFamily naiveScoresFamily = {
    .name = "scores_naive",
    .summary = "masked QK^T up to the diagonal, a thread an output",
    .header = "gemm/naive.cuh",
    .body = "naiveMatmul",
    .form = KernelForm::Batched,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return isMaskedScores(op); },
    .configurations = naiveConfigurations,
    .isSound = isSoundNaive,
    .launch = launchNaive,
    .estimate = estimateNaive,
};

} // namespace kiln
