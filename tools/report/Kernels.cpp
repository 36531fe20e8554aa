#include "tools/report/Graph.h"
#include "tools/report/Sections.h"

#include "kernels/cost/Occupancy.h"

namespace kiln {

namespace {

/// The steps of a function that launch a kernel, in their variants for any number of rows or for few.
struct StepsOf {
  const FunctionUse *use = nullptr;
  std::vector<const PlanLaunch *> launches;
  size_t first = 0; ///< index of the first such step
};

std::vector<StepsOf> stepsOf(const ReportedPlan &reported, StringRef kernel) {
  std::vector<StepsOf> found;
  for (const FunctionUse &use : reported.functions) {
    StepsOf own{&use, {}, 0};
    for (const auto &[i, step] : llvm::enumerate(use.function->steps))
      for (const PlanLaunch *launch : step.launches()) {
        if (launch->kernel != kernel)
          continue;
        if (own.launches.empty())
          own.first = i;
        own.launches.push_back(launch);
      }
    if (!own.launches.empty())
      found.push_back(std::move(own));
  }
  return found;
}

Occupancy occupancyOf(const PlanLaunch &launch, const KernelResources &resources, const Target &target) {
  return kiln::occupancyOf({launch.threads, resources.registers, resources.sharedBytes + launch.dynamicShared}, target);
}

class KernelSection {
public:
  KernelSection(Html &html, const Side &side, const PlanKernel &kernel)
      : html(html), side(side), reported(side.reported), kernel(kernel), steps(stepsOf(side.reported, kernel.name)) {}

  void write() {
    auto details = html.line().in("details", {{"class", "kernel"}, {"id", side.kernelId(kernel.name)}});
    {
      auto summary = html.in("summary");
      html.kernelName(kernel.name).text(" ").element("span", {{"class", "aside"}}, usedBy());
    }
    writeFacts();
    writeCosts();
    const std::string &source = reported.kernels.at(kernel.name);
    auto pair = html.in("div", {{"class", "code"}});
    writeIr();
    writeCuda(html, source, kernel.ops);
  }

private:
  void writeFacts();
  void writeCosts();
  void writePhases(const FunctionUse &function, const KernelUse &use);
  void writeIr();
  std::string usedBy() const;
  std::vector<std::string> types() const;

  void fact(StringRef name, const Twine &value) {
    auto pair = html.in("div");
    html.element("dt", {}, name);
    html.element("dd", {}, value);
  }

  Html &html;
  const Side &side;
  const ReportedPlan &reported;
  const PlanKernel &kernel;
  std::vector<StepsOf> steps;
};

std::string KernelSection::usedBy() const {
  std::vector<std::string> used;
  for (const StepsOf &own : steps)
    used.push_back(formatv("{0} {1} of @{2}", own.launches.size(), own.launches.size() == 1 ? "step" : "steps",
                           own.use->function->name));
  return llvm::join(used, ", ");
}

std::string launchText(const PlanLaunch &launch, int64_t cluster, const FunctionUse &use) {
  std::vector<std::string> formulas, values;
  for (const Expr &extent : launch.grid) {
    formulas.push_back(extent.str());
    values.push_back(std::to_string(use.value(extent)));
  }
  std::string text = "grid (" + llvm::join(formulas, ", ") + ")";
  if (formulas != values)
    text += " = (" + llvm::join(values, ", ") + ")";
  text += " of " + std::to_string(launch.threads) + " threads";
  if (launch.dynamicShared)
    text += ", " + bytesText(launch.dynamicShared) + " of dynamic shared memory";
  if (cluster > 1)
    text += ", clusters of " + std::to_string(cluster) + " blocks";
  return text + (launch.cooperative ? ", cooperative" : "");
}

void KernelSection::writeFacts() {
  auto list = html.in("dl", {{"class", "facts"}});
  fact("family", kernel.family);
  if (steps.empty())
    return;
  const PlanLaunch &launch = *steps.front().launches.front();
  fact("launch", launchText(launch, kernel.cluster, *steps.front().use));
  const KernelResources *resources = reported.resources(kernel);
  if (!resources)
    return fact("resources", "none known: the plan has no cubin");
  fact("registers", Twine(resources->registers) + " a thread");
  fact("shared memory", bytesText(resources->sharedBytes + launch.dynamicShared) + " a block");
  fact("spills",
       resources->spillStores + resources->spillLoads == 0
           ? "none"
           : formatv("{0} B stored, {1} B loaded a thread", resources->spillStores, resources->spillLoads).str());
  Occupancy occupancy = occupancyOf(launch, *resources, *reported.target);
  fact("occupancy", formatv("{0:F0} %, {1} blocks a multiprocessor, limited by {2}", occupancy.share * 100,
                            occupancy.blocks, occupancy.limit)
                        .str());
}

void KernelSection::writeCosts() {
  std::vector<std::pair<const FunctionUse *, const KernelUse *>> uses;
  for (const FunctionUse &function : reported.functions)
    for (const KernelUse &use : function.kernels)
      if (use.count.what == kernel.name)
        uses.push_back({&function, &use});
  if (uses.empty()) {
    html.element("p", {{"class", "note"}}, "Not launched at these dims.");
    return;
  }
  bool isMeasured = reported.profile.has_value();
  {
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto table = html.in("table");
    std::vector<StringRef> names = useColumns(isMeasured);
    names.insert(names.begin(), "in one call of");
    writeHead(html, names);
    auto body = html.in("tbody");
    for (auto [function, use] : uses) {
      auto row = html.in("tr");
      html.element("th", {{"scope", "row"}}, function->label);
      writeUse(html, *use, isMeasured);
    }
  }
  for (auto [function, use] : uses)
    if (use->seconds && !use->phases.empty())
      writePhases(*function, *use);
}

/// How the kernel spends its time in a call.
void KernelSection::writePhases(const FunctionUse &function, const KernelUse &use) {
  auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  auto table = html.in("table", {{"class", "phases"}});
  writeHead(html, {"phase in " + function.label, "time (µs)", "of the kernel's time"});
  auto body = html.in("tbody");
  for (const PhaseShare &phase : use.phases) {
    auto row = html.in("tr");
    html.element("th", {{"scope", "row"}}, phase.name);
    {
      auto cell = html.in("td", {{"class", "number"}});
      writeMicroseconds(html, phase.share * *use.seconds);
    }
    auto cell = html.in("td", {{"class", "number"}});
    writePercent(html, phase.share);
  }
}

/// Types of the values that the kernel computes, taken from its first step; empty texts if that step has another number
/// of ops.
std::vector<std::string> KernelSection::types() const {
  std::vector<std::string> texts;
  const Function *planned = steps.empty() ? nullptr : reported.plannedFunction(steps.front().use->function->name);
  if (planned) {
    const Op &op = **std::next(planned->body.ops().begin(), static_cast<ptrdiff_t>(steps.front().first));
    if (!op.region())
      texts.push_back(op.result()->type.str());
    else
      for (const auto &inner : op.region()->ops())
        if (!inner->has(Trait::Terminator))
          texts.push_back(inner->result()->type.str());
  }
  size_t count = kernel.ops.size();
  texts.resize(texts.size() == count ? count : 0);
  texts.resize(count);
  return texts;
}

void KernelSection::writeIr() {
  if (kernel.ops.empty())
    return;
  auto block = html.in("pre", {{"class", "ir"}, {"aria-label", "IR"}});
  auto code = html.in("code");
  size_t width = 0;
  for (const PlanKernelOp &op : kernel.ops)
    width = std::max(width, op.value.size());
  for (const auto &[op, type] : llvm::zip(kernel.ops, types())) {
    auto scope = html.in("span", {{"class", "line"}, {"data-op", op.value}, {"tabindex", "0"}});
    html.text("%" + op.value + std::string(width - op.value.size(), ' ') + " = " + op.op);
    if (!type.empty())
      html.element("span", {{"class", "t"}}, " : " + type);
    html.line();
  }
}

/// A key that is equal for kernels of different plans that do the same, whatever their dtype and rows. For a library's
/// step it is the name.
std::string correspondence(const Plan &plan, StringRef name) {
  const PlanKernel *kernel = plan.findKernel(name);
  return kernel ? formatv("{0} {1} {2}", kernel->title, kernel->extents, kernel->number).str() : name.str();
}

/// Kernels that correspond, one per side in order; null where a side has none.
using Match = std::vector<const KernelUse *>;

double secondsOf(const Match &match) {
  double seconds = 0;
  for (const KernelUse *use : match)
    seconds = std::max(seconds, use ? use->seconds.value_or(use->rooflineSeconds) : 0);
  return seconds;
}

/// The matched kernels of a function, slowest first.
std::vector<Match> matchKernels(ArrayRef<Side> sides, StringRef function) {
  std::vector<Match> matches;
  std::map<std::string, size_t> known;
  for (const auto &[i, side] : llvm::enumerate(sides)) {
    const FunctionUse *use = side.reported.findUse(function);
    if (!use)
      continue;
    for (const KernelUse &kernel : use->kernels) {
      auto [it, isNew] = known.insert({correspondence(side.reported.plan, kernel.count.what), matches.size()});
      // If several kernels of one plan have the same key, only the first gets counterparts.
      if (isNew || matches[it->second][i]) {
        it->second = matches.size();
        matches.push_back(Match(sides.size()));
      }
      matches[it->second][i] = &kernel;
    }
  }
  llvm::stable_sort(matches, [](const Match &a, const Match &b) { return secondsOf(a) > secondsOf(b); });
  return matches;
}

class KernelTable {
public:
  KernelTable(Html &html, ArrayRef<Side> sides)
      : html(html), sides(sides),
        isMeasured(llvm::any_of(sides, [](const Side &side) { return side.reported.profile.has_value(); })) {}

  void write() {
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto table = html.in("table", {{"class", "kernels"}});
    std::vector<StringRef> names = columns();
    writeHead(html, names);
    std::set<StringRef> done;
    for (const Side &side : sides)
      for (const FunctionUse &use : side.reported.functions)
        if (!use.kernels.empty() && done.insert(use.function->name).second)
          writeFunction(use, names.size());
  }

private:
  void writeFunction(const FunctionUse &use, size_t columns) {
    auto body = html.line().in("tbody");
    {
      auto row = html.in("tr", {{"class", "group"}});
      html.element("th", {{"scope", "rowgroup"}, {"colspan", std::to_string(columns)}}, use.label);
    }
    for (const Match &match : matchKernels(sides, use.function->name))
      for (const auto &[side, kernel] : llvm::zip(sides, match))
        if (kernel)
          writeRow(side, *kernel, match);
  }

  std::vector<StringRef> columns() {
    std::vector<StringRef> names = {"kernel"};
    llvm::append_range(names, useColumns(isMeasured));
    names.insert(names.end(), {"registers", "spills", "occupancy"});
    if (sides.size() > 1)
      names.push_back("time");
    return names;
  }

  void writeName(const Side &side, StringRef kernel) {
    auto head = html.in("th", {{"scope", "row"}});
    if (sides.size() > 1)
      html.element("span", {{"class", "letter side-" + side.id}}, side.letter()).text(" ");
    if (!side.reported.plan.findKernel(kernel)) {
      html.text(kernel);
      return;
    }
    auto link = html.in("a", {{"href", "#" + side.kernelId(kernel)}});
    html.kernelName(kernel);
  }

  void writeRow(const Side &side, const KernelUse &use, const Match &match) {
    bool isFirst = match.front() == &use, isPair = sides.size() > 1 && match.front() && match.back();
    std::string name = sides.size() == 1 ? "" : !isPair ? "alone" : isFirst ? "first" : "second";
    auto row = html.line().in("tr", name.empty() ? Html::Attributes{} : Html::Attributes{{"class", name}});
    writeName(side, use.count.what);
    writeUse(html, use, isMeasured);
    writeResources(side, use.count.what);
    if (sides.size() == 1)
      return;
    if (!isPair)
      html.element("td", {{"class", "number"}}, "only in " + side.letter());
    else if (isFirst)
      html.element("td");
    else if (match.front()->seconds && use.seconds)
      writeDifference(html, *match.front()->seconds, *use.seconds);
    else
      writeDifference(html, match.front()->rooflineSeconds, use.rooflineSeconds);
  }

  void writeResources(const Side &side, StringRef name) {
    const PlanKernel *kernel = side.reported.plan.findKernel(name);
    const KernelResources *resources = kernel ? side.reported.resources(*kernel) : nullptr;
    auto steps = stepsOf(side.reported, name);
    if (!resources || steps.empty()) {
      for (int i = 0; i < 3; ++i)
        html.element("td", {{"class", "number"}}, "–");
      return;
    }
    const PlanLaunch &launch = *steps.front().launches.front();
    Occupancy occupancy = occupancyOf(launch, *resources, *side.reported.target);
    html.element("td", {{"class", "number"}}, Twine(resources->registers));
    int64_t spills = resources->spillStores + resources->spillLoads;
    html.element("td", {{"class", spills ? "number worse" : "number"}}, spills ? bytesText(spills) : "none");
    html.element("td", {{"class", "number"}}, formatv("{0:F0} %", occupancy.share * 100).str());
  }

  Html &html;
  ArrayRef<Side> sides;
  bool isMeasured; ///< whether any side is measured
};

} // namespace

void writeKernelTable(Html &html, ArrayRef<Side> sides) { KernelTable(html, sides).write(); }

void writeKernels(Html &html, const Side &side) {
  for (const PlanKernel &kernel : side.reported.plan.kernels)
    KernelSection(html, side, kernel).write();
}

} // namespace kiln
