// QK^T with the causal mask, with tiles in registers only: rungs of the ladder, used only on request.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

constexpr int64_t tileExtent = 128, tileThreads = 256; // same as in the template

static std::vector<Tile> registerConfigurations(const Op &op, const Target &, const DimBinding &) {
  std::vector<Tile> tiles = {{{"vec", 1}}};
  if (*anchor(op)->operand(0)->type.lastDim().asConstant() % 4 == 0)
    tiles.push_back({{"vec", 4}});
  return tiles;
}

static Launch launchRegisters(const Op &op, const Tile &) {
  MatmulProblem problem = matmulProblem(op);
  return {.grid = {ceilDiv(problem.cols, Expr(tileExtent)), ceilDiv(problem.rows, Expr(tileExtent)), problem.batch},
          .threads = tileThreads};
}

static double estimateRegisters(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double depth = static_cast<double>(valueAt(problem.depth, dims));
  BlockCost cost;
  cost.blocks = static_cast<double>(
      valueAt(ceilDiv(problem.cols, Expr(tileExtent)) * ceilDiv(problem.rows, Expr(tileExtent)) * problem.batch, dims));
  cost.threads = tileThreads;
  // Only half of the tiles are computed.
  cost.flopsPerBlock = tileExtent * tileExtent * depth;
  cost.efficiency = setting(tile, "vec") == 4 ? 0.2 : 0.1;
  cost.l2BytesPerBlock = 2 * tileExtent * depth * 4;
  cost.memoryBytes = bytesMovedAt(op, dims);
  return estimateSeconds(cost, target);
}

const KernelFamily registerScoresFamily = {
    .name = "scores_registers",
    .summary = "masked QK^T up to the diagonal, 8 x 8 outputs in each thread's registers",
    .header = "gemm/register_tiled.cuh",
    .body = "registerTiled",
    .form = KernelForm::Batched,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return isMaskedScores(op); },
    .configurations = registerConfigurations,
    .isSound =
        [](const Op &op, const Tile &tile) {
          int64_t vec = setting(tile, "vec");
          return (vec == 1 || vec == 4) && *anchor(op)->operand(0)->type.lastDim().asConstant() % vec == 0;
        },
    .launch = launchRegisters,
    .estimate = estimateRegisters,
};

} // namespace kiln
