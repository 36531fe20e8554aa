#include "tools/report/Sections.h"

namespace kiln {

namespace {

int64_t weightBytes(const Plan &plan) {
  int64_t total = 0;
  for (const PlanWeight &weight : plan.weights)
    total += cantFail(packedSize(weight.recipe), "the reader has checked the recipes");
  return total;
}

class Summary {
public:
  Summary(Html &html, ArrayRef<Side> sides) : html(html), sides(sides) {}

  void write() {
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto table = html.in("table", {{"class", "summary"}});
    if (sides.size() > 1) {
      auto head = html.in("thead");
      auto row = html.in("tr");
      html.element("td");
      for (const Side &side : sides)
        html.element("th", {{"scope", "col"}, {"class", "side-" + side.id}}, side.letter() + ": " + side.label);
      html.element("th", {{"scope", "col"}}, "difference");
    }
    auto body = html.in("tbody");
    writePlan();
    // A report of one plan has a separate table of calls.
    if (sides.size() == 1)
      return;
    std::set<StringRef> done;
    for (const Side &side : sides)
      for (const FunctionUse &use : side.reported.functions)
        if (done.insert(use.function->name).second)
          writeFunction(use);
  }

private:
  void texts(StringRef name, function_ref<std::string(const ReportedPlan &)> value) {
    auto row = html.in("tr");
    html.element("th", {{"scope", "row"}}, name);
    std::set<std::string> distinct;
    for (const Side &side : sides) {
      std::string text = value(side.reported);
      distinct.insert(text);
      html.element("td", {}, text);
    }
    if (sides.size() > 1)
      html.element("td", {{"class", distinct.size() > 1 ? "differs" : "same"}}, distinct.size() > 1 ? "other" : "same");
  }

  /// A row of numbers where lower is better.
  template <class Number> void numbers(const Twine &name,
                                       function_ref<std::optional<Number>(const ReportedPlan &)> value,
                                       function_ref<void(Number)> show) {
    auto row = html.in("tr");
    html.element("th", {{"scope", "row"}}, name);
    std::vector<std::optional<Number>> values;
    for (const Side &side : sides) {
      auto cell = html.in("td", {{"class", "number"}});
      values.push_back(value(side.reported));
      if (values.back())
        show(*values.back());
      else
        html.text("–");
    }
    if (sides.size() == 1)
      return;
    if (values[0] && values[1])
      writeDifference(html, static_cast<double>(*values[0]), static_cast<double>(*values[1]));
    else
      html.element("td", {{"class", "number"}}, "–");
  }

  void bytes(const Twine &name, function_ref<std::optional<int64_t>(const ReportedPlan &)> value) {
    numbers<int64_t>(name, value, [&](int64_t number) { writeBytes(html, number); });
  }

  void writePlan();
  void writeFunction(const FunctionUse &use);

  Html &html;
  ArrayRef<Side> sides;
};

void Summary::writePlan() {
  {
    auto row = html.in("tr");
    html.element("th", {{"scope", "row"}}, "plan");
    for (const Side &side : sides)
      html.element("td", {}, side.reported.directory);
    if (sides.size() > 1)
      html.element("td");
  }
  texts("model", [](const ReportedPlan &r) {
    return formatv("{0}: {1} layers, context {2}, vocabulary {3}", r.plan.model.name, r.plan.model.layers,
                   r.plan.model.context, r.plan.model.vocabulary)
        .str();
  });
  texts("dtype", [](const ReportedPlan &r) { return dtypeName(r.plan.dtype).str(); });
  texts("target", [](const ReportedPlan &r) { return r.plan.target + ", " + r.target->device; });
  if (llvm::any_of(sides, [](const Side &side) { return !side.reported.plan.strategy.empty(); }))
    texts("strategy", [](const ReportedPlan &r) {
      return r.plan.strategy.empty() ? std::string("the compiler's") : r.plan.strategy;
    });
  if (llvm::any_of(sides, [](const Side &side) { return side.reported.plan.batchInvariant > 1; }))
    texts("bits of a row", [](const ReportedPlan &r) {
      return r.plan.batchInvariant > 1 ? "do not depend on the batch, as far as docs/batch-invariance.md promises"
                                       : "depend on the batch";
    });
  texts("bounds", [](const ReportedPlan &r) {
    std::vector<std::string> dims;
    for (const PlanDim &dim : r.plan.dims)
      dims.push_back(formatv("{0} from {1} to {2}", dim.name, dim.min, dim.max));
    return llvm::join(dims, ", ");
  });
  texts("compiled by", [](const ReportedPlan &r) {
    return "Kiln " + r.plan.compilerVersion + (r.plan.nvrtcVersion.empty() ? "" : ", NVRTC " + r.plan.nvrtcVersion);
  });
  if (llvm::any_of(sides, [](const Side &side) { return side.reported.profile.has_value(); }))
    texts("measured on",
          [](const ReportedPlan &r) { return r.profile ? r.profile->device : std::string("no profile"); });
  texts("kernels", [](const ReportedPlan &r) { return std::to_string(r.plan.kernels.size()); });
  bytes("weights", [](const ReportedPlan &r) { return weightBytes(r.plan); });
  bytes("states", [](const ReportedPlan &r) {
    int64_t total = 0;
    for (const PlanTensor &state : r.plan.states)
      total += r.functions.empty() ? 0 : r.functions.front().value(state.bytes());
    return total;
  });
  bytes("arena, peak", [](const ReportedPlan &r) {
    int64_t peak = 0;
    for (const FunctionUse &use : r.functions)
      peak = std::max(peak, use.value(use.function->arena));
    return peak;
  });
}

void Summary::writeFunction(const FunctionUse &use) {
  {
    auto row = html.in("tr", {{"class", "group"}});
    html.element("th", {{"scope", "colgroup"}, {"colspan", "4"}}, "one call of " + use.label);
  }
  StringRef name = use.function->name;
  auto ofTotal = [&](auto value) {
    return [name, value](const ReportedPlan &r) -> std::optional<decltype(value(KernelUse()))> {
      const FunctionUse *own = r.findUse(name);
      return own ? std::optional(value(own->total)) : std::nullopt;
    };
  };
  numbers<int64_t>("launches", ofTotal([](const KernelUse &total) { return total.count.launches; }),
                   [&](int64_t count) { html.element("data", {{"value", std::to_string(count)}}, Twine(count)); });
  bytes("bytes", ofTotal([](const KernelUse &total) { return total.count.cost.bytes; }));
  numbers<int64_t>("FLOPs", ofTotal([](const KernelUse &total) { return total.count.cost.flops; }),
                   [&](int64_t flops) { writeCount(html, static_cast<double>(flops), "FLOP"); });
  auto microseconds = [&](double seconds) {
    writeMicroseconds(html, seconds);
    html.text(" µs");
  };
  numbers<double>("roofline time", ofTotal([](const KernelUse &total) { return total.rooflineSeconds; }), microseconds);
  bool isMeasured = llvm::any_of(sides, [&](const Side &side) {
    const FunctionUse *own = side.reported.findUse(name);
    return side.reported.profile && own && own->total.seconds;
  });
  if (isMeasured)
    numbers<double>(
        "measured, all kernels",
        [&](const ReportedPlan &r) { return r.findUse(name) ? r.findUse(name)->total.seconds : std::nullopt; },
        microseconds);
}

/// Writes the table of one plan's calls.
void writeCalls(Html &html, const ReportedPlan &reported) {
  bool isMeasured = reported.profile.has_value();
  auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  auto table = html.in("table", {{"class", "calls"}});
  std::vector<StringRef> names = useColumns(isMeasured);
  names.insert(names.begin(), "one call of");
  names.push_back("arena");
  writeHead(html, names);
  auto body = html.in("tbody");
  for (const FunctionUse &use : reported.functions) {
    auto row = html.in("tr");
    html.element("th", {{"scope", "row"}}, use.label);
    writeUse(html, use.total, isMeasured);
    auto cell = html.in("td", {{"class", "number"}});
    writeBytes(html, use.value(use.function->arena));
  }
}

} // namespace

void writeSummary(Html &html, ArrayRef<Side> sides) {
  auto section = html.in("section", {{"id", "summary"}});
  html.element("h2", {}, "Summary");
  auto columns = html.in("div", {{"class", "heads"}});
  Summary(html, sides).write();
  if (sides.size() == 1)
    writeCalls(html, sides.front().reported);
}

} // namespace kiln
