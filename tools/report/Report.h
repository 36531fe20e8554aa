//===- Report.h - a plan as a page ------------------------------------------===//
//
// One self-contained HTML document: it contains style, script and pictures, and its policy forbids the browser to load
// anything.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/report/ReportedPlan.h"

namespace kiln {

/// The page of one plan, or of two beside each other.
std::string writeReport(ArrayRef<const ReportedPlan *> plans);

} // namespace kiln
