//===- Sections.h - the parts of a report's page ----------------------------===//
#pragma once

#include "tools/report/Html.h"
#include "tools/report/ReportedPlan.h"

namespace kiln {

/// A plan of the page. Two of them stand beside each other.
struct Side {
  const ReportedPlan &reported;
  std::string id;    ///< begins the ids of its elements: a or b
  std::string label; ///< how the page calls it

  /// That stands for it where there is little room.
  std::string letter() const { return StringRef(id).upper(); }

  std::string kernelId(StringRef kernel) const { return (id + "-kernel-" + kernel).str(); }
};

/// Model, target, sizes, and what a call of each function does; with two plans, what differs.
void writeSummary(Html &html, ArrayRef<Side> sides);

/// The graph of each function before and after fusion.
void writeGraphs(Html &html, ArrayRef<Side> sides);

/// A table of every kernel, of two plans with those that correspond beside each other.
void writeKernelTable(Html &html, ArrayRef<Side> sides);

/// Operations per byte against operations per second, a dot for each kernel.
void writeRoofline(Html &html, ArrayRef<Side> sides);

/// Every kernel with its IR, CUDA, launch, resources and costs.
void writeKernels(Html &html, const Side &side);

/// What lies where in the arena at each step.
void writeMemory(Html &html, ArrayRef<Side> sides);

/// Generated CUDA, a line an element, with classes for comments, keywords, types, numbers and text, and `data-op` on
/// the lines that the plan says are about ops; the source has these lines.
void writeCuda(Html &html, StringRef source, ArrayRef<PlanKernelOp> ops);

// Quantities as people read them, the exact number behind them in a <data> element.
void writeBytes(Html &html, int64_t bytes);
void writeCount(Html &html, double count, StringRef unit);
void writeMicroseconds(Html &html, std::optional<double> seconds);
void writePercent(Html &html, std::optional<double> share);

/// How much more or less the second is, of what is better when less.
void writeDifference(Html &html, double first, double second);

/// Names of the columns that `writeUse` writes: costs, and times where there is a profile.
std::vector<StringRef> useColumns(bool isMeasured);
void writeUse(Html &html, const KernelUse &use, bool isMeasured);

/// `12.6 MB`
std::string bytesText(int64_t bytes);
/// Of a kernel or a call: the share of the time that the roofline would take.
std::optional<double> shareOfLimit(const KernelUse &use);

} // namespace kiln
