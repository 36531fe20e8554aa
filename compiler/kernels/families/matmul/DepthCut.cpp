#include "kernels/families/matmul/DepthCut.h"

#include "kernels/families/matmul/WgmmaOperands.h"
#include "ops/Region.h"

namespace kiln {

int64_t DepthCut::mostSteps(int64_t steps) const {
  return static_cast<int64_t>(llvm::divideCeil(llvm::divideCeil(steps, ranges), chains));
}

int64_t stepsOfDepth(const Op &op) {
  const Type &weight = anchor(op)->operand(1)->type;
  return static_cast<int64_t>(llvm::divideCeil(*weight.lastDim().asConstant() * dtypeSize(weight.dtype), stepBytes));
}

int64_t colsOfProduct(const Op &op) { return *anchor(op)->operand(1)->type.shape[0].asConstant(); }

} // namespace kiln
