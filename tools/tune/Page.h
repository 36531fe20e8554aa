//===- Page.h - the results of `kiln tune` as an HTML page ----------------===//
#pragma once

#include "tools/tune/Problems.h"

namespace kiln {

/// A self-contained page: every call, every problem with its trials, and for each setting of the fastest family a plot
/// of time against the setting's values.
std::string tuningPage(StringRef title, ArrayRef<CallTimes> calls, ArrayRef<TuningProblem> problems);

} // namespace kiln
