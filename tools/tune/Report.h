//===- Report.h - what `kiln tune` has learnt ---------------------------------===//
#pragma once

#include "tools/tune/Problems.h"

namespace kiln {

/// Markdown: each whole call; a line for each problem with the model's choice, its rank among the trials, the fastest,
/// the slowest, and which of them was chosen; for each trial that was dropped, why; for each setting of each family the
/// best relative time of its values.
void printTuningReport(raw_ostream &os, ArrayRef<CallTimes> calls, ArrayRef<TuningProblem> problems);

} // namespace kiln
