// kiln-fuzz-seeds FOLDER: writes the seeds of every fuzz target, and dictionaries, into FOLDER. All of these are made
// from the project's own files; inputs that were found are in tests/fuzz/corpus.
#include "Seeds.h"

#include "Fuzz.h"

#include "codegen/Generate.h"
#include "frontend/BuildModule.h"
#include "ir/Parser.h"
#include "ir/Printer.h"
#include "ops/OpTable.h"
#include "strategies/Strategy.h"
#include "support/Version.h"
#include "support/files/File.h"

using namespace kiln;

void SeedWriter::add(StringRef target, StringRef name, StringRef contents) {
  constexpr size_t longest = 20000; // for the tokenizer's files; libFuzzer truncates the others
  if (contents.size() > (target == "plan" || target == "pipeline" ? 8192 : longest))
    return;
  std::string directory = folder + "/" + target.str();
  if (begun.insert(directory).second)
    llvm::sys::fs::remove_directories(directory);
  require(!llvm::sys::fs::create_directories(directory), "cannot make " + directory);
  writePlainFile(directory + "/" + name.str(), contents);
}

void SeedWriter::addDictionary(StringRef target, const std::set<std::string> &words) {
  std::string text;
  raw_string_ostream os(text);
  for (const std::string &word : words) {
    os << '"';
    llvm::printEscapedString(word, os);
    os << "\"\n";
  }
  // libFuzzer expects \x before the digits.
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i)
    escaped +=
        text[i] == '\\' && i + 1 < text.size() && llvm::isHexDigit(text[i + 1]) ? "\\x" : std::string(1, text[i]);
  writePlainFile(folder + "/" + target.str() + ".dict", escaped);
}

//===----------------------------------------------------------------------===//
// Tiny models at every stage
//===----------------------------------------------------------------------===//

static constexpr char tinyModel[] = "vocab_size = 29\nn_positions = 24\nn_embd = 32\nn_layer = 1\nn_head = 2\n"
                                    "activation_function = \"relu\"\ntie_word_embeddings = false\n";

static std::unique_ptr<Module> build(StringRef text, SourceManager &sources) {
  ConfigValue root = cantFail(parseToml(sources.add("tiny.toml", text.str())));
  return buildModule(cantFail(readModelConfig(root, "tiny", /*isHuggingFace=*/false)), {.maxBatch = 8}, sources);
}

/// Adds the plan of a module that has run the pipeline: whole, and with one function at a time.
static void addPlans(SeedWriter &seeds, StringRef name, const Module &module) {
  Expected<GeneratedPlan> generated = generate(module);
  if (!generated) {
    llvm::consumeError(generated.takeError());
    return;
  }
  const Plan &plan = generated->plan;
  DimBinding upper;
  for (const PlanDim &dim : plan.dims)
    upper[dim.name] = dim.max;
  if (plan.functions.size() > 1)
    seeds.add("plan", name, writePlan(plan));
  for (const PlanFunction &function : plan.functions) {
    Plan one = plan;
    if (std::optional<Entry> entry = findEntry(function.name))
      one.restrictTo({*entry}, upper);
    seeds.add("plan", name.str() + "-" + function.name, writePlan(one));
  }
}

static void addStages(SeedWriter &seeds, StringRef name, StringRef strategy) {
  PipelineOptions options;
  if (!strategy.empty())
    cantFail(applyStrategies(strategy, options));
  SourceManager sources;
  for (auto [stage, ending] : {std::pair(Stage::Graph, "graph"), {Stage::Fused, "fused"}, {Stage::Plan, "plan"}}) {
    std::unique_ptr<Module> module = build(tinyModel, sources);
    if (Error error = runPasses(*module, pipeline(stage, options)))
      require(false, "strategy " + strategy + ": " + toString(std::move(error)));
    std::string text = toString(*module);
    seeds.add("ir", (name + "-" + ending).str(), text);
    if (stage == Stage::Graph && !strategy.empty())
      text = ("// --strategy='" + strategy + "'\n").str() + text;
    if (stage == Stage::Plan) {
      text = "// --passes=canonicalize\n" + text;
      addPlans(seeds, name, *module);
    }
    seeds.add("pipeline", (name + "-" + ending).str(), text);
  }
}

/// Adds a plan of one kernel in clusters, which takes a weight and a result as tensor maps.
static void addPlanWithMaps(SeedWriter &seeds) {
  const Expr batch = Expr::name("B"), rows = batch * Expr(24);
  Plan plan;
  plan.compilerVersion = compilerVersion;
  plan.target = "sm_90a";
  plan.model = {"m", 1, 1, 1, {}};
  plan.dims = {{"B", 1, 8}};
  plan.origin = {"../gpt2", std::string(64, '0'), std::string(64, 'f')};
  plan.weights = {{"w", {.source = "w", .sourceShape = {64, 128}, .shape = {64, 128}, .dtype = DType::BF16}}};
  PlanKernel kernel{"k", "gemm_mma", {}};
  kernel.maps = {{0, DType::BF16, {128, 2, 4, 8}, {256, 512, 2048}, {64, 2, 4, 1}},
                 {1, DType::F32, {32, rows}, {128}, {32, 64}}};
  kernel.cluster = 2;
  plan.kernels = {kernel};
  PlanFunction function{"f", {}, {"y"}, {{{"y", DType::F32, {rows, 32}}, 0, 0, 1}}, {}, rows * Expr(128), 0};
  PlanStep &step = function.steps.emplace_back();
  step.launch = {"k", {batch * Expr(2), 1, 1}, 128, 0, false, {"%w", "%y", "B"}};
  plan.functions = {function};
  SourceManager sources;
  require(static_cast<bool>(parsePlan(sources.add("plan.toml", writePlan(plan)))), "a plan with maps that is refused");
  seeds.add("plan", "tensor-maps", writePlan(plan));
}

/// Adds well-formed modules of tests, and their plans.
static void addTestedModules(SeedWriter &seeds) {
  for (const TestedModule &tested : testedModules()) {
    SourceManager sources;
    auto module = parseModule(sources.add("test.kiln", tested.text), sources, opTable());
    if (!module) {
      llvm::consumeError(module.takeError());
      continue;
    }
    // The whole pipeline refuses modules that already have kernels.
    if (!StringRef(tested.text).contains("kernel ="))
      seeds.add("pipeline", tested.name, tested.text);
    if (!tested.passes.empty())
      seeds.add("pipeline", tested.name + "-passes", tested.passes + tested.text);
    if (Error error = runPasses(**module, pipeline(Stage::Plan, {})))
      llvm::consumeError(std::move(error));
    else
      addPlans(seeds, tested.name, **module);
  }
}

//===----------------------------------------------------------------------===//
// Names that the project has
//===----------------------------------------------------------------------===//

static void addStrategies(SeedWriter &seeds, std::set<std::string> &words) {
  for (const Strategy &strategy : allStrategies()) {
    std::string text = (strategy.topic + "=" + strategy.name).str(), given;
    words.insert({strategy.topic.str(), strategy.name.str(), text});
    for (const StrategyParameter &parameter : strategy.parameters) {
      words.insert(parameter.name.str());
      given += (given.empty() ? "" : ",") +
               (parameter.name + "=" + Twine(parameter.defaultValue.value_or(parameter.least))).str();
    }
    seeds.add("strategies", strategy.topic.str() + "-" + strategy.name.str(), text);
    if (!given.empty())
      seeds.add("strategies", strategy.topic.str() + "-" + strategy.name.str() + "-given", text + " { " + given + "}");
  }
}

static void addPasses(SeedWriter &seeds, std::set<std::string> &words) {
  std::string all;
  for (const PassDef *pass : allPasses()) {
    std::string text = pass->name.str() + "{";
    words.insert(pass->name.str());
    for (const PassOption &option : pass->options) {
      words.insert(option.name.str());
      for (StringRef choice : option.choices)
        words.insert(choice.str());
      text += (text.ends_with("{") ? "" : ",") + option.name.str() + "=" + option.defaultValue.str();
    }
    seeds.add("strategies", "pass-" + pass->name.str(), text + "}");
    all += (all.empty() ? "" : ",") + pass->name.str();
  }
  seeds.add("strategies", "passes", all);
}

static std::set<std::string> wordsOfIr() {
  std::set<std::string> words = {"module @m {",
                                 "func @",
                                 "dim T : 1..",
                                 "weight %",
                                 "state %",
                                 "attributes",
                                 "-> transpose",
                                 "-> pad",
                                 "fused @",
                                 "yield %",
                                 "return %",
                                 "loc(\"m\":1:1)",
                                 "f32[",
                                 "f16[",
                                 "bf16[",
                                 "i32[",
                                 "[B,T,",
                                 "true",
                                 "false",
                                 "9223372036854775807",
                                 "-9223372036854775808",
                                 "1e309",
                                 "281474976710656"};
  for (const OpDef *def : opTable().all()) {
    words.insert(def->mnemonic.str());
    for (const AttributeSpec &attribute : def->attributes) {
      words.insert(attribute.name.str() + " = ");
      for (StringRef choice : attribute.choices)
        words.insert(choice.str());
    }
  }
  for (const AttributeSpec &attribute : commonAttributes())
    words.insert(attribute.name.str() + " = ");
  return words;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: kiln-fuzz-seeds FOLDER\n";
    return 2;
  }
  SeedWriter seeds(argv[1]);
  addSeedsOfFiles(seeds);
  addSeedsOfModelFiles(seeds);
  addStages(seeds, "tiny", "");
  for (StringRef strategy : {"fusion=off", "precision=bf16", "precision=bf16,matmul=cublaslt,attention=cublas",
                             "matmul=naive,attention=unfused"})
    addStages(seeds, ("tiny-" + strategy).str(), strategy);
  addPlanWithMaps(seeds);
  addTestedModules(seeds);
  std::set<std::string> strategies, words = wordsOfIr();
  addStrategies(seeds, strategies);
  addPasses(seeds, strategies);
  seeds.addDictionary("ir", words);
  seeds.addDictionary("strategies", strategies);
  words.insert(strategies.begin(), strategies.end());
  words.insert({"--passes='", "--strategy='", "--dtype=", "--target="});
  seeds.addDictionary("pipeline", words);
  return 0;
}
