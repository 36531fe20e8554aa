//===- CheckPlanned.h - check that a module has run the whole pipeline ----===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Checks that every op has a kernel, the kernel's configuration and a place in memory. Error: the first op or function
/// on which a pass of the pipeline has not run, and the name of the pass; or an attribute in IR text that no pass would
/// write.
Error checkPlanned(const Module &module);

} // namespace kiln
