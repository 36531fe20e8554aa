//===- RowStatistics.h - kernels that compute statistics of rows for a product ------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// The rows of which a region computes mean and reciprocal deviation, or null.
Value *rowsOfStatistics(const Op &op);

/// The op that applies such statistics, if nothing else reads them; or null.
Op *soleUse(const Op &statistics);

} // namespace kiln
