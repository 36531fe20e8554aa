#include "tools/report/Report.h"

#include "tools/report/Page.h"
#include "tools/report/Sections.h"

namespace kiln {

/// Labels plans by model, dtype and target, or by their directories where these are equal.
static std::vector<Side> sidesOf(ArrayRef<const ReportedPlan *> plans) {
  std::vector<Side> sides;
  for (const auto &[i, reported] : llvm::enumerate(plans)) {
    const Plan &plan = reported->plan;
    std::string label = (plan.model.name + " " + dtypeName(plan.dtype) + " " + plan.target).str();
    sides.push_back({*reported, i == 0 ? "a" : "b", label});
  }
  if (sides.size() == 2 && sides[0].label == sides[1].label)
    for (Side &side : sides)
      side.label = llvm::sys::path::filename(StringRef(side.reported.directory).rtrim('/')).str();
  if (sides.size() == 2 && sides[0].label == sides[1].label)
    for (Side &side : sides)
      side.label = side.reported.directory;
  return sides;
}

static void writeKernelSections(Html &html, ArrayRef<Side> sides) {
  auto section = html.in("section", {{"id", "kernels"}});
  html.element("h2", {}, "Kernels");
  html.element("p", {},
               "Bytes are what a kernel must read and write, FLOPs what it must compute, in all launches of one call; "
               "roofline is the time that they take at the target's rates, and no launch can be faster.");
  writeKernelTable(html, sides);
  writeRoofline(html, sides);
  auto columns = html.in("div", {{"class", "columns"}});
  for (const Side &side : sides) {
    auto column = html.in("div");
    html.element("h3", {}, sides.size() > 1 ? side.letter() + ": " + side.label : "Sources");
    writeKernels(html, side);
  }
}

static void writeHeader(Html &html, StringRef title) {
  auto header = html.in("header");
  html.element("h1", {}, title);
  auto navigation = html.in("nav", {{"aria-label", "Sections"}});
  for (StringRef name : {"Summary", "Graphs", "Kernels", "Memory"})
    html.element("a", {{"href", "#" + name.lower()}}, name);
}

static void writeMain(Html &html, ArrayRef<Side> sides) {
  auto main = html.in("main");
  writeSummary(html, sides);
  writeGraphs(html.line(), sides);
  writeKernelSections(html.line(), sides);
  writeMemory(html.line(), sides);
}

std::string writeReport(ArrayRef<const ReportedPlan *> plans) {
  std::vector<Side> sides = sidesOf(plans);
  std::string title = sides.front().label;
  if (sides.size() > 1)
    title += " and " + sides.back().label;
  Html html;
  writeHeader(html, title);
  writeMain(html, sides);
  return htmlPage(title, html.take());
}

} // namespace kiln
