#include "tools/session/ModelSource.h"

#include "driver/Compile.h"
#include "ir/Parser.h"
#include "ops/OpTable.h"
#include "plan/Plan.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/RandomCheckpoint.h"
#include "strategies/Strategy.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace fs = llvm::sys::fs;

static bool isPlan(StringRef path) { return fs::exists(path + "/plan.toml"); }

static Expected<std::unique_ptr<Module>> openModule(StringRef model, const CompileOptions &options,
                                                    SourceManager &sources) {
  if (!isPlan(model))
    return compileToStage(model, Stage::Fused, options, sources);
  if (Expected<Plan> plan = readPlan(model); !plan)
    return plan.takeError();
  Expected<const SourceFile *> file = sources.open((model + "/ir/fused.kiln").str());
  if (!file)
    return file.takeError();
  return parseModule(*file, sources, opTable());
}

static Expected<std::shared_ptr<const WeightSource>> openWeights(StringRef model, const WeightOptions &options,
                                                                 const Module &module) {
  if (options.randomSeed)
    return std::make_shared<RandomCheckpoint>(*options.randomSeed, module.intAttribute("layers", 1));
  std::string directory = options.directory;
  if (directory.empty() && fs::is_directory(model) && !isPlan(model))
    directory = model.str();
  if (directory.empty())
    return makeFileError(model, "no weights here: give --weights DIR or --random-weights SEED");
  Expected<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::open(directory);
  if (!checkpoint)
    return checkpoint.takeError();
  // Every tensor is there and has its shape, and no other is, before anything runs.
  StringSet<> used;
  for (const auto &weight : module.weights) {
    used.insert(weight->recipe->source);
    if (auto tensor = (*checkpoint)->tensor(weight->recipe->source, weight->recipe->sourceShape); !tensor)
      return tensor.takeError();
  }
  if (Error error = (*checkpoint)->expectOnly(used))
    return error;
  return std::shared_ptr<const WeightSource>(std::move(*checkpoint));
}

static bool hasVocabulary(StringRef directory) {
  return llvm::any_of(std::initializer_list<StringRef>{"vocab.json", "encoder.json", "tokenizer.json"},
                      [&](StringRef name) { return fs::exists(directory + "/" + name); });
}

Expected<PipelineOptions> pipelineOptions(const PipelineChoices &choices) {
  PipelineOptions options{.dtype = choices.dtype, .matmul = choices.matmul, .tuning = choices.tuning};
  if (!choices.strategy.empty())
    if (Error error = applyStrategies(choices.strategy, options))
      return error;
  return options;
}

Expected<ModelSource> openModel(StringRef model, const WeightOptions &options, int64_t batch,
                                const PipelineOptions &pipeline) {
  if (isPlan(model) && !pipeline.strategy.empty())
    return makeFileError(model, "--strategy: expected a model to compile, got a plan");
  ModelSource source;
  // Kernels for few rows are made for the bound; powers of two keep the number of different plans small.
  source.compileOptions.build.maxBatch = static_cast<int64_t>(llvm::PowerOf2Ceil(batch));
  source.sources = std::make_unique<SourceManager>();
  source.compileOptions.pipeline = pipeline;
  source.modelPath = model.str();
  source.planDirectory = isPlan(model) ? model.str() : "";
  auto module = openModule(model, source.compileOptions, *source.sources);
  if (!module)
    return module.takeError();
  source.module = std::move(*module);
  auto weights = openWeights(model, options, *source.module);
  if (!weights)
    return weights.takeError();
  source.weights = std::move(*weights);
  source.tokenizerDirectory = !options.directory.empty() ? options.directory : model.str();
  if (!hasVocabulary(source.tokenizerDirectory))
    return source;
  Expected<Tokenizer> tokenizer = Tokenizer::load(source.tokenizerDirectory);
  if (!tokenizer)
    return tokenizer.takeError();
  int64_t vocabulary = source.module->intAttribute("vocab", tokenizer->vocabSize());
  if (tokenizer->vocabSize() > vocabulary)
    return makeFileError(source.tokenizerDirectory, "the vocabulary has " + Twine(tokenizer->vocabSize()) +
                                                        " tokens, the model only " + Twine(vocabulary));
  source.tokenizer = std::move(*tokenizer);
  return source;
}

} // namespace kiln
