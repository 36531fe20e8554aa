#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/ModelSource.h"
#include "tools/session/PlanOrigin.h"
#include "tools/session/UsageError.h"

#include "codegen/CompilePlan.h"
#include "driver/Compile.h"
#include "ir/Printer.h"
#include "support/Cache.h"
#include "support/Diagnostic.h"
#include "support/File.h"
#include "support/Printable.h"
#include "support/Process.h"
#include "support/StagedDirectory.h"

namespace kiln {

namespace {

std::string megabytes(const Expr &bytes, const DimBinding &dims) {
  int64_t value = cantFail(bytes.evaluate(dims), "the plan's formulas have values");
  return formatv("{0:F1} MB", static_cast<double>(value) / 1e6).str();
}

void printSummary(const GeneratedPlan &generated, StringRef directory) {
  const Plan &plan = generated.plan;
  DimBinding dims;
  std::string at;
  for (const PlanDim &dim : plan.dims) {
    dims[dim.name] = std::min<int64_t>(dim.max, dim.name == plan.entries.batch ? 8 : 1024);
    at += (at.empty() ? "" : ", ") + dim.name + " = " + std::to_string(dims[dim.name]);
  }
  raw_ostream &os = llvm::errs();
  os << plan.model.name << " for " << plan.target << ": " << plan.kernels.size() << " kernels in "
     << printable(directory) << '\n';
  for (const PlanFunction &function : plan.functions)
    os << formatv("  @{0,-8} {1,4} steps, arena {2} at {3} (largest live set {4})\n", function.name,
                  function.steps.size(), megabytes(function.arena, dims), at, megabytes(function.live, dims));
  for (const PlanKernel &kernel : plan.kernels)
    for (const auto &[target, use] : kernel.resources)
      if (use.spillStores || use.spillLoads)
        os << "  note: " << kernel.name << " spills " << use.spillStores << " bytes of registers on " << target << '\n';
}

/// IR of the stages that a plan keeps for study and for the reference executor.
Expected<std::map<std::string, std::string>> stageTexts(const CompileCommand &command, const CompileOptions &options,
                                                        SourceManager &sources) {
  std::map<std::string, std::string> texts;
  for (Stage stage : {Stage::Graph, Stage::Fused, Stage::Plan}) {
    auto module = compileToStage(command.model, stage, options, sources);
    if (!module)
      return module.takeError();
    texts[stageName(stage).str()] = toString(**module);
  }
  return texts;
}

Error writeDump(StringRef directory, const GeneratedPlan &generated, const std::map<std::string, std::string> &ir) {
  std::map<std::string, std::string> files;
  for (const auto &[name, text] : ir)
    files["ir/" + name + ".kiln"] = text;
  for (const KernelSource &source : generated.sources)
    files["cuda/" + source.fileName()] = selfContained(source);
  return writeFiles(directory, files);
}

} // namespace

/// The compiler's options for this command. Error: a UsageError.
static Expected<CompileOptions> compileOptions(const CompileCommand &command) {
  if (Error error = checkIsModel("kiln compile", command.model))
    return error;
  Expected<PipelineOptions> pipeline = pipelineOptions(command.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  CompileOptions options;
  options.pipeline = std::move(*pipeline);
  if (!command.targets.empty())
    options.pipeline.target = command.targets.front();
  options.pipeline.portable = command.targets.size() > 1;
  options.build.maxBatch = command.maxBatch;
  options.passes = command.passes;
  if (!command.passes.empty())
    if (auto passes = parsePasses(command.passes); !passes)
      return asUsageError(passes.takeError());
  if (!StringRef(command.model).ends_with(".kiln"))
    return options;
  SourceManager sources;
  auto module = compileToStage(command.model, Stage::Graph, options, sources);
  if (!module)
    return module.takeError();
  if (Error error = checkForText(command.pipeline, **module, command.model))
    return error;
  return options;
}

/// Compiles every kernel for every target.
static Expected<std::vector<Cubin>> makeCubins(const CompileCommand &command, const CompileOptions &options,
                                               GeneratedPlan &generated) {
  ProgressLine progress(command.quiet);
  CubinOptions cubins;
  cubins.targets = command.targets;
  if (cubins.targets.empty())
    cubins.targets = {options.pipeline.target};
  cubins.cacheDirectory = command.noCache ? "" : defaultCacheDirectory();
  cubins.progress = [&](size_t done, size_t all, StringRef what) { progress.show(done, all, what); };
  return compileCubins(generated, cubins);
}

/// Error: the file cannot be written.
static Error printIr(const CompileCommand &command, const Module &module) {
  std::string text = toString(module);
  if (!command.output.empty() && command.output != "-")
    return writeFile(command.output, text);
  standardOutput() << text;
  return Error::success();
}

/// What the plan is to remember of the model. Weights and vocabulary that cannot be read are no reason not to compile.
static std::optional<PlanOrigin> findOrigin(const CompileCommand &command, StringRef directory) {
  Expected<std::optional<PlanOrigin>> origin = describeOrigin(command.model, directory);
  if (origin)
    return std::move(*origin);
  for (Diagnostic &diagnostic : takeDiagnostics(origin.takeError())) {
    diagnostic.severity = Diagnostic::Severity::Note;
    diagnostic.message = "the plan does not remember weights and vocabulary: " + diagnostic.message;
    if (!command.quiet)
      diagnostic.print(llvm::errs());
  }
  return std::nullopt;
}

Error run(const CompileCommand &command) {
  Expected<CompileOptions> options = compileOptions(command);
  if (!options)
    return options.takeError();
  SourceManager sources;
  auto module = compileToStage(command.model, command.stage, *options, sources);
  if (!module)
    return module.takeError();
  if (command.stage < Stage::Cuda)
    return printIr(command, **module);

  Expected<GeneratedPlan> generated = generate(**module);
  if (!generated)
    return generated.takeError();
  auto ir = stageTexts(command, *options, sources);
  if (!ir)
    return ir.takeError();
  std::vector<Cubin> cubins;
  if (command.stage == Stage::Cubin)
    if (Error error = makeCubins(command, *options, *generated).moveInto(cubins))
      return error;
  std::string directory = command.output.empty() ? (*module)->name + ".plan" : command.output;
  generated->plan.origin = findOrigin(command, directory);
  if (Error error = writePlanDirectory(directory, *generated, cubins, *ir))
    return error;
  if (!command.dumpDirectory.empty())
    if (Error error = writeDump(command.dumpDirectory, *generated, *ir))
      return error;
  if (!command.quiet)
    printSummary(*generated, directory);
  return Error::success();
}

} // namespace kiln
