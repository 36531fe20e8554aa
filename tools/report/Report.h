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

/// An SVG file with one layer of a plan's @prefill before and after fusion, beside each other. Error: the plan has no
/// such function, or fewer than two layers, so that none stands for the others.
Expected<std::string> writeLayerPicture(const ReportedPlan &reported);

} // namespace kiln
