//===- Report.h - the results of `kiln tune` as text ----------------------===//
#pragma once

#include "tools/tune/Problems.h"

namespace kiln {

/// Markdown: each whole call; a line for each problem with the first choice, its rank among the trials, the fastest,
/// the slowest, and the chosen one; the reason for each dropped trial; the best relative time of each value of each
/// setting of each family.
void printTuningReport(raw_ostream &os, ArrayRef<CallTimes> calls, ArrayRef<TuningProblem> problems);

} // namespace kiln
