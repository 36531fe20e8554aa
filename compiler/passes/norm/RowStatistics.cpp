#include "passes/norm/RowStatistics.h"

namespace kiln {

Value *rowsOfStatistics(const Op &op) {
  if (!op.region() || op.results().size() != 2 || !op.region()->ops().front()->is(OpKind::rowMean))
    return nullptr;
  const Op &mean = *op.region()->ops().front(), &rstd = *mean.next();
  ArrayRef<Value *> yielded = op.region()->terminator()->operands();
  bool fits = rstd.is(OpKind::rowRstd) && rstd.operand(0) == mean.operand(0) && rstd.operand(1) == mean.result() &&
              yielded.equals({mean.result(), rstd.result()});
  return fits ? mean.operand(0) : nullptr;
}

Op *soleUse(const Op &statistics) {
  ArrayRef<Op *> mean = statistics.result(0)->getUsers(), rstd = statistics.result(1)->getUsers();
  bool isOne = mean.size() == 1 && rstd.size() == 1 && mean[0] == rstd[0];
  return isOne && mean[0]->is(OpKind::normalizeProduct) && mean[0]->parentOp() ? mean[0] : nullptr;
}

} // namespace kiln
