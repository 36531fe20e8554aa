#include "tools/session/WritePlan.h"

#include "ir/Printer.h"
#include "support/model/TargetName.h"
#include "tools/session/PlanOrigin.h"
#include "tools/session/UsageError.h"

namespace kiln {

StringRef stageName(Stage stage) {
  static constexpr StringRef names[] = {"graph", "fused", "plan", "cuda", "cubin"};
  return names[static_cast<int>(stage)];
}

/// Error: a target twice, or targets for which nothing would be made.
static Error checkTargets(const PlanRequest &request) {
  const std::vector<std::string> &targets = request.targets;
  if (std::set<std::string>(targets.begin(), targets.end()).size() < targets.size())
    return makeUsageError("--target: expected each target once, got " + llvm::join(targets, ","));
  if (!request.withCubins && targets.size() > 1)
    return makeUsageError("--target: expected one target where no cubins are made, got " + llvm::join(targets, ","));
  if (!request.withCubins && !targets.empty() && !request.passes.empty())
    return makeUsageError("--target: --passes chooses the target, like select-kernels{target=sm_90a}");
  return Error::success();
}

Expected<CompileOptions> compileOptions(const PlanRequest &request) {
  if (Error error = checkTargets(request))
    return error;
  if (!request.passes.empty())
    if (Error error = checkForPasses(request.pipeline))
      return error;
  if (Error error = checkIsModel("kiln compile", request.model))
    return error;
  Expected<PipelineOptions> pipeline = pipelineOptions(request.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  CompileOptions options;
  options.pipeline = std::move(*pipeline);
  if (!request.targets.empty())
    options.pipeline.target = request.targets.front();
  if (isPtxTarget(options.pipeline.target))
    return makeUsageError("--target: expected a GPU first, for which tiles are chosen, like sm_80,compute_80, got " +
                          options.pipeline.target);
  options.pipeline.portable = request.targets.size() > 1;
  options.build.maxBatch = request.maxBatch;
  options.passes = request.passes;
  if (!request.passes.empty())
    if (auto passes = parsePasses(request.passes); !passes)
      return asUsageError(passes.takeError());
  if (!StringRef(request.model).ends_with(".kiln"))
    return options;
  SourceManager sources;
  auto module = compileToStage(request.model, Stage::Graph, options, sources);
  if (!module)
    return module.takeError();
  if (Error error = checkForText(request.pipeline, **module, request.model))
    return error;
  return options;
}

/// IR of the stages that a plan keeps for study and for the reference executor.
static Expected<std::map<std::string, std::string>> stageTexts(StringRef model, const CompileOptions &options,
                                                               SourceManager &sources) {
  std::map<std::string, std::string> texts;
  for (Stage stage : {Stage::Graph, Stage::Fused, Stage::Plan}) {
    auto module = compileToStage(model, stage, options, sources);
    if (!module)
      return module.takeError();
    texts[stageName(stage).str()] = toString(**module);
  }
  return texts;
}

/// Compiles every kernel for every target.
static Expected<std::vector<Cubin>> makeCubins(const PlanRequest &request, const CompileOptions &options,
                                               const PlanOutput &output, GeneratedPlan &generated) {
  CubinOptions cubins;
  cubins.targets = request.targets;
  if (cubins.targets.empty())
    cubins.targets = {options.pipeline.target};
  cubins.cacheDirectory = output.cacheDirectory;
  cubins.progress = output.onProgress;
  return compileCubins(generated, cubins);
}

/// What the plan is to remember of the model. Weights and vocabulary that cannot be read are no reason not to compile.
static std::optional<PlanOrigin> findOrigin(StringRef model, StringRef directory, const PlanOutput &output) {
  Expected<std::optional<PlanOrigin>> origin = describeOrigin(model, directory);
  if (origin)
    return std::move(*origin);
  for (Diagnostic &diagnostic : takeDiagnostics(origin.takeError())) {
    diagnostic.severity = Diagnostic::Severity::Note;
    diagnostic.message = "the plan does not remember weights and vocabulary: " + diagnostic.message;
    if (output.onNote)
      output.onNote(diagnostic);
  }
  return std::nullopt;
}

Expected<WrittenPlan> writePlan(const PlanRequest &request, const CompileOptions &options, const PlanOutput &output) {
  SourceManager sources;
  auto module = compileToStage(request.model, Stage::Plan, options, sources);
  if (!module)
    return module.takeError();
  WrittenPlan written;
  if (Error error = generate(**module).moveInto(written.generated))
    return error;
  if (Error error = stageTexts(request.model, options, sources).moveInto(written.ir))
    return error;
  std::vector<Cubin> cubins;
  if (request.withCubins)
    if (Error error = makeCubins(request, options, output, written.generated).moveInto(cubins))
      return error;
  written.directory = output.directory.empty() ? (*module)->name + ".plan" : output.directory;
  written.generated.plan.origin = findOrigin(request.model, written.directory, output);
  if (Error error = writePlanDirectory(written.directory, written.generated, cubins, written.ir))
    return error;
  return written;
}

} // namespace kiln
