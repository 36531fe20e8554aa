#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/ModelSource.h"

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

Stage parseStage(StringRef name) {
  static const std::map<StringRef, Stage> stages = {{"graph", Stage::Graph},
                                                    {"fused", Stage::Fused},
                                                    {"plan", Stage::Plan},
                                                    {"cuda", Stage::Cuda},
                                                    {"cubin", Stage::Cubin}};
  return stages.find(name)->second;
}

std::string megabytes(const Expr &bytes, const DimBinding &dims) {
  int64_t value = cantFail(bytes.evaluate(dims), "the plan's formulas have values");
  return formatv("{0:F1} MB", static_cast<double>(value) / 1e6).str();
}

void printSummary(const GeneratedPlan &generated, StringRef directory) {
  const Plan &plan = generated.plan;
  DimBinding dims;
  std::string at;
  for (const PlanDim &dim : plan.dims) {
    dims[dim.name] = std::min<int64_t>(dim.max, dim.name == "B" ? 8 : 1024);
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
  for (StringRef stage : {"graph", "fused", "plan"}) {
    auto module = compileToStage(command.model, parseStage(stage), options, sources);
    if (!module)
      return module.takeError();
    texts[stage.str()] = toString(**module);
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

Error run(const CompileCommand &command) {
  SourceManager sources;
  CompileOptions options;
  Expected<PipelineOptions> chosen = pipelineOptions(command.pipeline);
  if (!chosen)
    return chosen.takeError();
  options.pipeline = std::move(*chosen);
  options.pipeline.target = command.targets.front();
  options.build.maxBatch = command.maxBatch;
  options.passes = command.passes;
  Stage stage = parseStage(command.stage);
  if (stage < Stage::Cuda && !command.dumpDirectory.empty())
    return makeError("--dump-dir: expected --stage cuda or cubin, got " + command.stage);
  if (std::set<std::string> targets(command.targets.begin(), command.targets.end());
      targets.size() < command.targets.size())
    return makeError("--target: expected each target once, got " + llvm::join(command.targets, ","));
  auto module = compileToStage(command.model, stage, options, sources);
  if (!module)
    return module.takeError();
  if (stage < Stage::Cuda) {
    std::string text = toString(**module);
    if (!command.output.empty() && command.output != "-")
      return writeFile(command.output, text);
    standardOutput() << text;
    return Error::success();
  }

  Expected<GeneratedPlan> generated = generate(**module);
  if (!generated)
    return generated.takeError();
  auto ir = stageTexts(command, options, sources);
  if (!ir)
    return ir.takeError();
  std::vector<Cubin> cubins;
  if (stage == Stage::Cubin) {
    ProgressLine progress(command.quiet);
    CubinOptions cubinOptions;
    cubinOptions.targets = command.targets;
    cubinOptions.cacheDirectory = command.noCache ? "" : defaultCacheDirectory();
    cubinOptions.progress = [&](size_t done, size_t all, StringRef what) { progress.show(done, all, what); };
    auto compiled = compileCubins(*generated, cubinOptions);
    if (!compiled)
      return compiled.takeError();
    cubins = std::move(*compiled);
  }
  std::string directory = command.output.empty() ? (*module)->name + ".plan" : command.output;
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
