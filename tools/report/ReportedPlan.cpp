#include "tools/report/ReportedPlan.h"

#include "ir/Parser.h"
#include "ops/OpTable.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"

namespace kiln {

int64_t FunctionUse::value(const Expr &expr) const {
  return cantFail(expr.evaluate(dims), "the reader has tried the plan's formulas at both ends of the bounds");
}

const Function *ReportedPlan::plannedFunction(StringRef name) const { return planned->findFunction(name); }

const FunctionUse *ReportedPlan::findUse(StringRef function) const {
  auto it = llvm::find_if(functions, [&](const FunctionUse &use) { return use.function->name == function; });
  return it == functions.end() ? nullptr : &*it;
}

const KernelResources *ReportedPlan::resources(const PlanKernel &kernel) const {
  auto it = kernel.resources.find(plan.target);
  if (it == kernel.resources.end())
    it = kernel.resources.begin();
  return it == kernel.resources.end() ? nullptr : &it->second;
}

static Expected<std::unique_ptr<Module>> readModule(ReportedPlan &reported, StringRef stage) {
  Expected<const SourceFile *> file = reported.sources.open((reported.directory + "/ir/" + stage + ".kiln").str());
  if (!file)
    return file.takeError();
  return parseModule(*file, reported.sources, opTable());
}

/// Checks that the ops of the plan's IR correspond one to one to its steps.
static Error checkSteps(const ReportedPlan &reported) {
  for (const PlanFunction &function : reported.plan.functions)
    if (const Function *planned = reported.plannedFunction(function.name)) {
      size_t ops = planned->body.ops().size() - 1;
      if (ops != function.steps.size())
        return makeFileError(reported.directory + "/ir/plan.kiln",
                             "@" + function.name + ": expected an op for each of the plan's " +
                                 Twine(function.steps.size()) + " steps, got " + Twine(ops));
    }
  return Error::success();
}

/// Checks that a kernel's source has the lines that the plan refers to.
static Error checkLines(const PlanKernel &kernel, StringRef path, StringRef source) {
  size_t lines = source.rtrim('\n').count('\n') + 1;
  for (const PlanKernelOp &op : kernel.ops)
    if (!op.lines.empty() && static_cast<size_t>(op.lines.back()) > lines)
      return makeFileError(path, "expected line " + Twine(op.lines.back()) + ", which is about %" + op.value +
                                     " as plan.toml has it, got " + Twine(lines) + " lines; compile the model again");
  return Error::success();
}

static Error readFiles(ReportedPlan &reported) {
  for (const PlanKernel &kernel : reported.plan.kernels) {
    std::string path = reported.directory + "/kernels/" + kernel.name + ".cu";
    Expected<std::string> text = readFile(path);
    if (!text)
      return text.takeError();
    if (Error error = checkLines(kernel, path, *text))
      return error;
    reported.kernels[kernel.name] = std::move(*text);
  }
  for (auto [stage, module] : {std::pair("graph", &reported.graph), std::pair("plan", &reported.planned)}) {
    auto parsed = readModule(reported, stage);
    if (!parsed)
      return parsed.takeError();
    *module = std::move(*parsed);
  }
  return checkSteps(reported);
}

/// Chooses the dims: those asked for, else the profile's first, else the defaults of kiln bench.
static Error chooseDims(ReportedPlan &reported, const ReportRequest &request) {
  const std::optional<Profile> &profile = reported.profile;
  reported.batch = request.batch.value_or(profile ? profile->rows.front().batch : 1);
  const PlanDim *tokens = reported.plan.findDim(reported.plan.entries.tokens);
  int64_t length = std::min<int64_t>(64, tokens ? tokens->max : INT64_MAX);
  reported.length = request.length.value_or(profile ? profile->rows.front().length : length);
  auto fits = [&](const Profile::Row &row) { return row.batch == reported.batch && row.length == reported.length; };
  if (profile && llvm::none_of(profile->rows, fits))
    return makeFileError(request.profile, "expected rows of batch " + Twine(reported.batch) + " and length " +
                                              Twine(reported.length) + "; the first is of batch " +
                                              Twine(profile->rows.front().batch) + " and length " +
                                              Twine(profile->rows.front().length));
  return Error::success();
}

static KernelUse useOf(const ReportedPlan &reported, StringRef function, Measurement count) {
  KernelUse use;
  use.rooflineSeconds = reported.target->rooflineSeconds(count.cost.bytes, count.cost.flops, reported.plan.dtype);
  if (reported.profile)
    if (const Profile::Row *row = reported.profile->find(function, count.what, reported.batch, reported.length)) {
      use.seconds = row->seconds;
      use.phases = row->phases;
    }
  use.count = std::move(count);
  return use;
}

/// The position of a call of @decode: after the tokens of the prompts, or at the end of the context.
static int64_t positionOf(const ReportedPlan &reported) {
  return std::min(reported.length, reported.plan.model.context - 1);
}

static bool isDecode(const PlanFunction &function) { return findEntry(function.name) == Entry::Decode; }

/// The name and dims of a function; for a measured decode also the position, since times depend on it.
static std::string labelOf(const ReportedPlan &reported, const FunctionUse &use) {
  std::string label = "@" + use.function->name;
  for (const PlanDim &dim : reported.plan.dims)
    if (llvm::any_of(use.function->arguments, [&](const PlanTensor &argument) {
          return llvm::is_contained(argument.shape, Expr::name(dim.name));
        }))
      label += ", " + dim.name + " = " + std::to_string(use.dims.at(dim.name));
  if (reported.profile && isDecode(*use.function))
    label += ", position = " + std::to_string(positionOf(reported));
  return label;
}

static Expected<FunctionUse> countFunction(const ReportedPlan &reported, const PlanFunction &function) {
  FunctionUse use;
  use.function = &function;
  for (const PlanDim &dim : reported.plan.dims)
    use.dims[dim.name] = dim.max;
  if (!reported.plan.entries.empty()) {
    use.dims[reported.plan.entries.batch] = reported.batch;
    // A length of 0 means decode at the first position.
    use.dims[reported.plan.entries.tokens] = isDecode(function) ? 1 : std::max<int64_t>(1, reported.length);
  }
  use.label = labelOf(reported, use);
  auto counts = countKernels(reported.plan, function, use.dims, isDecode(function) ? positionOf(reported) : 0);
  if (!counts)
    return counts.takeError();
  use.total.seconds = 0;
  for (Measurement &count : *counts) {
    const KernelUse &kernel = use.kernels.emplace_back(useOf(reported, function.name, std::move(count)));
    use.total.count.launches += kernel.count.launches;
    use.total.count.cost += kernel.count.cost;
    use.total.rooflineSeconds += kernel.rooflineSeconds;
    use.total.seconds =
        kernel.seconds && use.total.seconds ? std::optional(*use.total.seconds + *kernel.seconds) : std::nullopt;
  }
  return use;
}

Expected<std::unique_ptr<ReportedPlan>> readReportedPlan(const ReportRequest &request) {
  auto reported = std::make_unique<ReportedPlan>();
  reported->directory = request.plan;
  Expected<Plan> plan = readPlan(request.plan);
  if (!plan)
    return plan.takeError();
  reported->plan = std::move(*plan);
  Expected<const Target *> target = findTarget(reported->plan.target);
  if (!target)
    return target.takeError();
  reported->target = *target;
  if (Error error = readFiles(*reported))
    return error;
  if (!request.profile.empty()) {
    Expected<Profile> profile = readProfile(request.profile, reported->plan);
    if (!profile)
      return profile.takeError();
    reported->profile = std::move(*profile);
  }
  if (Error error = chooseDims(*reported, request))
    return error;
  for (const PlanFunction &function : reported->plan.functions) {
    Expected<FunctionUse> use = countFunction(*reported, function);
    if (!use)
      return use.takeError();
    reported->functions.push_back(std::move(*use));
  }
  return reported;
}

} // namespace kiln
