#include "tools/session/ModelOptions.h"

#include "driver/Compile.h"
#include "strategies/Strategy.h"
#include "support/text/Nearest.h"
#include "tools/session/UsageError.h"

namespace kiln {

ArrayRef<StringRef> dtypeWords() {
  static constexpr StringRef words[] = {"f32", "f16", "bf16", "tf32"};
  return words;
}

ArrayRef<StringRef> matmulWords() {
  static constexpr StringRef words[] = {"generated", "cublaslt", "auto"};
  return words;
}

ArrayRef<StringRef> decodeWords() {
  static constexpr StringRef words[] = {"auto", "graph", "persistent"};
  return words;
}

Error checkWords(const PipelineChoices &choices) {
  for (const auto &[name, given, words] :
       {std::tuple("--dtype", &choices.dtype, dtypeWords()), std::tuple("--matmul", &choices.matmul, matmulWords()),
        std::tuple("--decode", &choices.decode, decodeWords())})
    if (*given && !llvm::is_contained(words, **given))
      return makeUsageError(Twine(name) + ": expected one of " + llvm::join(words, ", ") + ", got '" + **given + "'" +
                            didYouMean(**given, words));
  return Error::success();
}

bool isPlan(StringRef path) { return llvm::sys::fs::exists(path + "/plan.toml"); }

Error checkIsModel(StringRef command, StringRef model) {
  if (!isPlan(model))
    return Error::success();
  return makeUsageError("MODEL: " + model + " is a compiled plan; " + command +
                        " takes what one is compiled from, a .toml, a directory with config.json or a model in one "
                        "file");
}

/// Applies the strategy, if one was given. Error: as applyStrategies reports, or an option that it contradicts.
static Error takeStrategy(const PipelineChoices &choices, PipelineOptions &options) {
  if (!choices.strategy)
    return Error::success();
  if (Error error = applyStrategies(*choices.strategy, options))
    return asUsageError(std::move(error));
  // An option that states a default value looks to the strategy like one that was not given.
  for (auto [name, given, used] :
       {std::tuple("--dtype ", choices.dtype, options.dtype), std::tuple("--matmul ", choices.matmul, options.matmul),
        std::tuple("--decode ", choices.decode, options.decode)})
    if (given && *given != used)
      return makeUsageError(name + *given + " and --strategy " + *choices.strategy + ", which stands for " + name +
                            used + ", exclude each other");
  return Error::success();
}

Expected<PipelineOptions> pipelineOptions(const PipelineChoices &choices) {
  PipelineOptions options;
  options.dtype = choices.dtype.value_or(options.dtype);
  options.matmul = choices.matmul.value_or(options.matmul);
  options.decode = choices.decode.value_or(options.decode);
  options.tuning = choices.tuning.value_or(options.tuning);
  options.batchInvariant = choices.batchInvariant.value_or(options.batchInvariant);
  options.draftTokens = choices.draftTokens.value_or(options.draftTokens);
  options.ranks = choices.ranks.value_or(options.ranks);
  if (Error error = takeStrategy(choices, options))
    return error;
  return options;
}

namespace {

struct GivenOption {
  StringRef name;
  std::string value;
  std::string text() const { return (name + " " + value).str(); }
};

std::vector<GivenOption> givenOptions(const PipelineChoices &choices) {
  std::vector<GivenOption> given;
  for (auto [name, value] : {std::pair<StringRef, const std::optional<std::string> &>{"--dtype", choices.dtype},
                             {"--matmul", choices.matmul},
                             {"--decode", choices.decode},
                             {"--strategy", choices.strategy},
                             {"--tuning", choices.tuning}})
    if (value)
      given.push_back({name, *value});
  if (choices.batchInvariant)
    given.push_back({"--batch-invariant", std::to_string(*choices.batchInvariant)});
  return given;
}

/// Whether a pass runs before kernels are chosen, so that its effect shows in the fused graph.
bool makesGraph(const PassDef *pass) {
  return llvm::any_of(pipeline(Stage::Fused, {}),
                      [&](const PassInvocation &invocation) { return invocation.pass == pass; });
}

/// The effects of options, grouped by who can honour them.
struct Effects {
  bool onDType = false, onGraph = false, onKernels = false;
};

Effects effectsOf(const PipelineOptions &options) {
  const PipelineOptions initial;
  Effects effects;
  effects.onDType = options.dtype != initial.dtype;
  effects.onGraph = options.decode != initial.decode;
  effects.onKernels = options.matmul != initial.matmul || options.decode != initial.decode ||
                      options.tuning != initial.tuning || options.batchInvariant != initial.batchInvariant ||
                      !options.kernels.empty() || !options.tiles.empty() || options.stepByStep ||
                      options.weightsFirst || options.serial || options.restrictPointers;
  auto count = [&](const PassDef *pass) { (makesGraph(pass) ? effects.onGraph : effects.onKernels) = true; };
  for (const PassDef *pass : options.without)
    count(pass);
  for (const auto &[pass, given] : options.options)
    count(pass);
  return effects;
}

/// The effects of --strategy alone.
Expected<Effects> strategyEffects(const PipelineChoices &choices) {
  PipelineChoices alone;
  alone.strategy = choices.strategy;
  Expected<PipelineOptions> options = pipelineOptions(alone);
  if (!options)
    return options.takeError();
  return effectsOf(*options);
}

} // namespace

Error checkForPlan(const PipelineChoices &choices, const Plan &plan, StringRef path) {
  if (choices.ranks && *choices.ranks != plan.ranks)
    return makeUsageError("--ranks: " + path + " is a plan for " + Twine(plan.ranks) +
                          (plan.ranks == 1 ? " GPU" : " GPUs") + "; compile the model again with --ranks " +
                          Twine(*choices.ranks));
  std::vector<GivenOption> given = givenOptions(choices);
  if (given.empty())
    return Error::success();
  const GivenOption &option = given.front();
  std::string of = option.name == "--dtype" ? (" of dtype " + dtypeName(plan.dtype)).str() : "";
  return makeUsageError(option.name + ": " + path + " is a compiled plan" + of + "; compile the model again with " +
                        option.text());
}

Error checkForText(const PipelineChoices &choices, const Module &module, StringRef path) {
  if (choices.dtype)
    return makeUsageError("--dtype: " + path + " is IR, which has its dtypes; compile the model again with --dtype " +
                          *choices.dtype);
  if (choices.draftTokens)
    return makeUsageError("--draft-tokens: " + path +
                          " is IR, which has @verify or not; compile the model again with "
                          "--draft-tokens " +
                          Twine(*choices.draftTokens));
  if (choices.ranks)
    return makeUsageError("--ranks: " + path + " is IR, which is split or not; compile the model again with --ranks " +
                          Twine(*choices.ranks));
  if (choices.decode)
    return makeUsageError("--decode: " + path +
                          " is IR, whose @decode is one kernel or not; compile the model again with --decode " +
                          *choices.decode);
  std::vector<GivenOption> given = givenOptions(choices);
  if (!given.empty() && hasKernels(module))
    return makeUsageError(given.front().name + ": the ops of " + path +
                          " have kernels already; give IR without them, or compile the model again with " +
                          given.front().text());
  Expected<Effects> effects = strategyEffects(choices);
  if (!effects)
    return effects.takeError();
  if (effects->onDType || effects->onGraph)
    return makeUsageError("--strategy: " + path +
                          " is IR, which is as fused as it is to become and has its dtypes; "
                          "compile the model again with --strategy " +
                          *choices.strategy);
  return Error::success();
}

Error checkForPasses(const PipelineChoices &choices) {
  std::vector<GivenOption> given = givenOptions(choices);
  if (choices.draftTokens)
    given.push_back({"--draft-tokens", std::to_string(*choices.draftTokens)});
  if (choices.ranks)
    given.push_back({"--ranks", std::to_string(*choices.ranks)});
  if (given.empty())
    return Error::success();
  return makeUsageError(given.front().name + " excludes --passes, which choose dtype, kernels and tiles themselves");
}

Error makeReferenceError(const Twine &what, const Twine &does) {
  return makeUsageError(what + ": the reference executor (--device cpu, or auto without a GPU) " + does +
                        "; use --device emulate or cuda:N");
}

Error checkForReference(const PipelineChoices &choices) {
  if (choices.dtype && *choices.dtype != PipelineOptions().dtype)
    return makeReferenceError("--dtype " + *choices.dtype, "computes in fp32");
  for (const GivenOption &option : givenOptions(choices))
    if (option.name == "--matmul" || option.name == "--decode" || option.name == "--tuning")
      return makeReferenceError(option.text(), "runs no kernels");
  Expected<Effects> effects = strategyEffects(choices);
  if (!effects)
    return effects.takeError();
  if (effects->onDType || effects->onKernels)
    return makeReferenceError("--strategy " + *choices.strategy, "runs the fused graph in fp32, and no kernels");
  return Error::success();
}

} // namespace kiln
