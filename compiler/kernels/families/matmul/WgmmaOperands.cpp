#include "kernels/families/matmul/WgmmaOperands.h"

#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

int64_t clusterBlocks(const Tile &tile) {
  return setting(tile, "cluster_m") * setting(tile, "cluster_n") * setting(tile, "parts");
}

bool canMapProduct(const Op &op, const Target &target) {
  if (!target.hasWgmma || !fitsTensorCores(op, target))
    return false;
  const Type &weight = anchor(op)->operand(1)->type;
  return dtypeSize(weight.dtype) == 2 && *weight.shape[0].asConstant() % permutedRows == 0;
}

bool acceptsMappedProduct(const Op &op, const Target &target) {
  return canMapProduct(op, target) && hasLeftOperandInMemory(op);
}

int64_t rowMailBytes(const Op &op) {
  constexpr int64_t bytesOfRow = 16, bytesOfCount = 16;
  if (!op.region() || !(findInRegion(op, OpKind::rowRstd) || findInRegion(op, OpKind::mergedRstd)))
    return 0;
  return bytesOfCount + bytesOfRow * valueAt(rowCount(anchor(op)->result()->type), upperBounds(op));
}

OperandMap mapOfLeft(const Op &op, int64_t tileM) {
  const Value &left = *anchor(op)->operand(0);
  Expr rows = rowCount(left.type), boxRows = tileM == 8 ? Expr(8) : min(Expr(8) * ceilDiv(rows, Expr(8)), Expr(tileM));
  int64_t bytes = dtypeSize(left.type.dtype), depth = *left.type.lastDim().asConstant();
  return {&left, {Expr(depth), rows}, {Expr(depth * bytes)}, {Expr(stepBytes / bytes), boxRows}};
}

OperandMap mapOfWeight(const Op &op, int64_t rows, int64_t permuted) {
  const Value &weight = *anchor(op)->operand(1);
  int64_t bytes = dtypeSize(weight.type.dtype), depth = *weight.type.lastDim().asConstant(), row = depth * bytes;
  return {&weight,
          {Expr(depth), Expr(2), Expr(4), Expr(permuted / 8), Expr(*weight.type.shape[0].asConstant() / permuted)},
          {Expr(row), Expr(permuted / 4 * row), Expr(2 * row), Expr(permuted * row)},
          {Expr(stepBytes / bytes), Expr(2), Expr(4), Expr(permuted / 8), Expr(rows / permuted)}};
}

} // namespace kiln
