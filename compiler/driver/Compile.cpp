#include "driver/Compile.h"

#include "ir/Parser.h"
#include "ops/OpTable.h"

namespace kiln {

static Expected<std::unique_ptr<Module>> openModule(StringRef model, const BuildOptions &options,
                                                    SourceManager &sources) {
  if (model.ends_with(".kiln")) {
    Expected<const SourceFile *> file = sources.open(model);
    if (!file)
      return file.takeError();
    return parseModule(*file, sources, opTable());
  }
  Expected<ModelConfig> config = readModelConfig(model, sources);
  if (!config)
    return config.takeError();
  config->layers.value = options.layers.value_or(config->layers.value);
  config->positions.value = options.positions.value_or(config->positions.value);
  return buildModule(*config, options, sources);
}

bool hasKernels(const Module &module) {
  return llvm::any_of(module.functions, [](const auto &function) {
    return llvm::any_of(function->body.ops(), [](const auto &op) { return op->attribute("kernel"); });
  });
}

/// The passes that take a module to a stage, depending on the `model` that it was read from.
static Expected<std::vector<PassInvocation>> passesFor(StringRef model, const Module &module, Stage stage,
                                                       const CompileOptions &options) {
  if (!options.passes.empty()) {
    Expected<std::vector<PassInvocation>> chosen = parsePasses(options.passes);
    if (chosen)
      chosen->resize(endOf(stage, *chosen));
    return chosen;
  }
  if (!model.ends_with(".kiln"))
    return pipeline(stage, options.pipeline);
  if (hasKernels(module))
    return std::vector<PassInvocation>();
  // The text is the fused graph.
  PipelineOptions rest = options.pipeline;
  rest.ranks = module.ranks();
  std::vector<PassInvocation> passes = pipeline(stage, rest);
  passes.erase(passes.begin(), passes.begin() + static_cast<ptrdiff_t>(endOf(Stage::Fused, passes)));
  return passes;
}

/// Records in the module how it was compiled, how its plan runs, and how its kernels are written.
static void describeRun(Module &module, const PipelineOptions &options) {
  if (!options.strategy.empty())
    module.attributes.insert_or_assign(ModuleAttribute::strategy.str(), Attribute::text(options.strategy));
  if (options.stepByStep)
    module.attributes.insert_or_assign(ModuleAttribute::stepByStep.str(), true);
  if (options.weightsFirst)
    module.attributes.insert_or_assign(ModuleAttribute::weightsFirst.str(), true);
  if (options.serial)
    module.attributes.insert_or_assign(ModuleAttribute::serial.str(), true);
  if (options.restrictPointers)
    module.attributes.insert_or_assign(ModuleAttribute::restrictPointers.str(), true);
  if (options.portable)
    module.attributes.insert_or_assign(ModuleAttribute::portable.str(), true);
}

Expected<std::unique_ptr<Module>> compileToStage(StringRef model, Stage stage, const CompileOptions &options,
                                                 SourceManager &sources) {
  Expected<std::unique_ptr<Module>> module = openModule(model, options.build, sources);
  if (!module)
    return module.takeError();
  Expected<std::vector<PassInvocation>> passes = passesFor(model, **module, stage, options);
  if (!passes)
    return passes.takeError();
  describeRun(**module, options.pipeline);
  if (Error error = runPasses(**module, *passes))
    return error;
  return module;
}

} // namespace kiln
