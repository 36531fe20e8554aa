// Attention at the lower rungs of the ladder, used only on request.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// attention_naive
//===----------------------------------------------------------------------===//

/// Shared memory, as in the template.
static int64_t naiveFlashShared(const Op &op, int64_t tile) {
  return 4 * (3 * attentionProblem(op).headSize + tile) * tile;
}

static double estimateNaiveFlash(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  AttentionProblem problem = attentionProblem(op);
  double queries = static_cast<double>(valueAt(problem.queries, dims)), size = static_cast<double>(problem.headSize);
  double extent = static_cast<double>(setting(tile, "tile"));
  BlockCost cost;
  cost.blocks = std::ceil(queries / extent) * static_cast<double>(valueAt(problem.heads * problem.batch, dims));
  cost.threads = setting(tile, "tile") * setting(tile, "tile");
  double keys = visibleKeys(problem, queries) + extent;
  cost.flopsPerBlock = extent * keys * (4 * size + 20);
  // Each FMA needs two reads of shared memory, and every thread of a query computes the weights of all its keys.
  cost.efficiency = 0.1;
  cost.l2BytesPerBlock = keys * 2 * size * static_cast<double>(problem.elementBytes);
  cost.memoryBytes = bytesMovedAt(op, dims);
  cost.sharedBytes = naiveFlashShared(op, setting(tile, "tile"));
  return estimateSeconds(cost, target);
}

const KernelFamily naiveFlashFamily = {
    .name = "attention_naive",
    .summary = "flash attention with a thread a score, online softmax in shared memory",
    .header = "attention/naive_flash.cuh",
    .body = "naiveFlash",
    .form = KernelForm::Flash,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &,
                  const DimBinding &) { return isFusedAttention(op) && naiveFlashShared(op, 16) <= maxStaticShared; },
    .configurations = [](const Op &, const Target &, const DimBinding &) -> std::vector<Tile> {
      return {{{"tile", 16}}};
    },
    .isSound =
        [](const Op &, const Tile &tile) {
          int64_t extent = setting(tile, "tile");
          return extent == 16 || extent == 32;
        },
    .launch = [](const Op &op, const Tile &tile) -> Launch {
      AttentionProblem problem = attentionProblem(op);
      int64_t extent = setting(tile, "tile");
      return {.grid = {ceilDiv(problem.queries, Expr(extent)), problem.heads, problem.batch},
              .threads = extent * extent,
              .staticShared = naiveFlashShared(op, extent)};
    },
    .estimate = estimateNaiveFlash,
};

//===----------------------------------------------------------------------===//
// gemm_batched_reduction
//===----------------------------------------------------------------------===//

static double estimateReduction(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double depth = static_cast<double>(valueAt(problem.depth, dims));
  BlockCost cost;
  cost.blocks = static_cast<double>(valueAt(problem.rows * problem.cols * problem.batch, dims));
  cost.threads = setting(tile, "threads");
  // The sum over the block costs about forty instructions of each thread.
  cost.flopsPerBlock = 2 * (depth + 40 * static_cast<double>(cost.threads));
  cost.efficiency = 0.25;
  cost.l2BytesPerBlock = 2 * depth * 4;
  cost.memoryBytes = bytesMovedAt(op, dims);
  return estimateSeconds(cost, target);
}

const KernelFamily blockReductionFamily = {
    .name = "gemm_batched_reduction",
    .summary = "one product a head, a block an output, its depth shared between the threads",
    .header = "gemm/block_reduction.cuh",
    .body = "blockReduction",
    .form = KernelForm::Batched,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return op.is(OpKind::qk) || op.is(OpKind::pv); },
    .configurations = [](const Op &, const Target &, const DimBinding &) -> std::vector<Tile> {
      return {{{"threads", 32}}, {{"threads", 64}}, {{"threads", 128}}, {{"threads", 256}}};
    },
    .isSound = [](const Op &, const Tile &tile) { return setting(tile, "threads") % 32 == 0; },
    .launch = [](const Op &op, const Tile &tile) -> Launch {
      MatmulProblem problem = matmulProblem(op);
      return {.grid = {problem.cols, problem.rows, problem.batch},
              .threads = setting(tile, "threads"),
              .staticShared = blockScratchBytes};
    },
    .estimate = estimateReduction,
};

} // namespace kiln
