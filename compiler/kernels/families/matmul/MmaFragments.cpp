// Products in tensor cores without shared memory, rungs of the ladder: products of weights, and QK^T and PV of unfused
// attention. Used only on request.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

constexpr int64_t colsPerBlock = 32, rowsPerWarp = 16; // same as in the template

/// Whether the operands are of 16 bits, or may be rounded to tf32.
static bool fitsTf32(const Op &product) {
  return product.operand(1)->type.dtype != DType::F32 || product.identAttribute("precision", "f32") == "tf32";
}

static bool acceptsBatched(const Op &op, const Target &target, const DimBinding &) {
  return target.computeCapability() >= 80 && (op.is(OpKind::qk) || op.is(OpKind::pv)) && fitsTf32(op);
}

static bool acceptsMatmul(const Op &op, const Target &target, const DimBinding &) {
  const Op &product = *anchor(op);
  if (target.computeCapability() < 80 || !product.is(OpKind::matmul) || !fitsTf32(product) || usesGroups(op))
    return false;
  const Type &weight = product.operand(1)->type;
  return hasLeftOperandInMemory(op) && weight.shape[0].asConstant() && weight.lastDim().asConstant();
}

static std::vector<Tile> fragmentConfigurations(const Op &, const Target &, const DimBinding &) {
  return {{{"warps", 4}}, {{"warps", 1}}, {{"warps", 2}}, {{"warps", 8}}};
}

static Launch launchFragments(const Op &op, const Tile &tile) {
  MatmulProblem problem = matmulProblem(op);
  int64_t warps = setting(tile, "warps");
  return {.grid = {ceilDiv(problem.cols, Expr(colsPerBlock)), ceilDiv(problem.rows, Expr(rowsPerWarp * warps)),
                   problem.batch},
          .threads = 32 * warps};
}

static double estimateFragments(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double depth = static_cast<double>(valueAt(problem.depth, dims));
  Launch launch = launchFragments(op, tile);
  BlockCost cost;
  cost.blocks = static_cast<double>(valueAt(launch.grid[0] * launch.grid[1] * launch.grid[2], dims));
  cost.threads = launch.threads;
  auto rows = static_cast<double>(rowsPerWarp * setting(tile, "warps"));
  // A lane loads, converts and rounds twelve elements for four products, which takes most of the time.
  cost.flopsPerBlock = 2 * rows * colsPerBlock * depth;
  cost.efficiency = 0.5;
  cost.l2BytesPerBlock = (rows + colsPerBlock) * depth * 4;
  cost.memoryBytes = bytesMovedAt(op, dims);
  return estimateSeconds(cost, target);
}

const KernelFamily mmaFragmentsFamily = {
    .name = "gemm_fragments",
    .summary = "matrix product in tensor cores, operands straight from global memory, factors rounded to tf32",
    .header = "gemm/mma_fragments.cuh",
    .body = "mmaFragments",
    .form = KernelForm::Matmul,
    .takesEitherOrder = true,
    .byRequestOnly = true,
    .accepts = acceptsMatmul,
    .configurations = fragmentConfigurations,
    .isSound = anyTile,
    .launch = launchFragments,
    .estimate = estimateFragments,
};

const KernelFamily mmaBatchedFamily = {
    .name = "gemm_batched_mma",
    .summary = "one product a head in tensor cores, operands straight from global memory, factors rounded to tf32",
    .header = "gemm/mma_fragments.cuh",
    .body = "mmaFragments",
    .form = KernelForm::Batched,
    .byRequestOnly = true,
    .accepts = acceptsBatched,
    .configurations = fragmentConfigurations,
    .isSound = anyTile,
    .launch = launchFragments,
    .estimate = estimateFragments,
};

} // namespace kiln
