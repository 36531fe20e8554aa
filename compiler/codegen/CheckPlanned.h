//===- CheckPlanned.h - has a module run the whole pipeline? ----------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Checks that every op has a kernel that runs it, a configuration of it and a place in memory. Error: the first op, or
/// function, for which a pass of the pipeline has not run, and which; an attribute of IR text that no pass would write.
Error checkPlanned(const Module &module);

} // namespace kiln
