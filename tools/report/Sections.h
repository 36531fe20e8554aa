//===- Sections.h - the parts of a report's page ----------------------------===//
#pragma once

#include "tools/report/Graph.h"
#include "tools/report/Html.h"
#include "tools/report/ReportedPlan.h"

namespace kiln {

/// A plan of the page. Two plans are shown beside each other.
struct Side {
  const ReportedPlan &reported;
  std::string id;    ///< prefix of its elements' ids: a or b
  std::string label; ///< how the page calls it

  /// A short label for places with little room.
  std::string letter() const { return StringRef(id).upper(); }

  std::string kernelId(StringRef kernel) const { return (id + "-kernel-" + kernel).str(); }
};

/// Model, target, sizes, and the costs of a call of each function; with two plans, the differences.
void writeSummary(Html &html, ArrayRef<Side> sides);

/// The graph of each function before and after fusion.
void writeGraphs(Html &html, ArrayRef<Side> sides);

/// Draws what layoutGraph has placed, moved by x and y. Kernels' names are links to the parts of a side; none for null.
void drawGraph(Html &html, const Graph &graph, double x, double y, const Side *side);

/// A table of every kernel; with two plans, corresponding kernels are beside each other.
void writeKernelTable(Html &html, ArrayRef<Side> sides);

/// Operations per byte against operations per second, a dot for each kernel.
void writeRoofline(Html &html, ArrayRef<Side> sides);

/// Every kernel with its IR, CUDA, launch, resources and costs.
void writeKernels(Html &html, const Side &side);

/// The content of the arena at each step.
void writeMemory(Html &html, ArrayRef<Side> sides);

/// Generated CUDA, one element per line, with classes for comments, keywords, types, numbers and text, and `data-op` on
/// the lines that the plan assigns to ops; the source has these lines.
void writeCuda(Html &html, StringRef source, ArrayRef<PlanKernelOp> ops);

// Quantities in readable form, with the exact number in a <data> element.
void writeBytes(Html &html, int64_t bytes);
void writeCount(Html &html, double count, StringRef unit);
void writeMicroseconds(Html &html, std::optional<double> seconds);
void writePercent(Html &html, std::optional<double> share);

/// The change from the first to the second, for a quantity of which less is better.
void writeDifference(Html &html, double first, double second);

/// Names of the columns that `writeUse` writes: costs, and times if there is a profile.
std::vector<StringRef> useColumns(bool isMeasured);
void writeUse(Html &html, const KernelUse &use, bool isMeasured);

/// `12.6 MB`
std::string bytesText(int64_t bytes);
/// For a kernel or a call: the roofline's time as a share of the measured time.
std::optional<double> shareOfLimit(const KernelUse &use);

} // namespace kiln
