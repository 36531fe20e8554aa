// The options of every command. CLI11 is slow to compile and throws: only this file and CommandLine.cpp include it.
#include "tools/kiln/Options.h"

#include "tools/kiln/OptionChecks.h"
#include "tools/ladder/Rungs.h"

#include "kernels/targets/Target.h"
#include "strategies/Strategy.h"
#include "support/Process.h"

#include <CLI/CLI.hpp>

namespace kiln {

StringRef stageName(Stage stage) {
  static constexpr StringRef names[] = {"graph", "fused", "plan", "cuda", "cubin"};
  return names[static_cast<int>(stage)];
}

std::optional<Stage> parseStage(StringRef name) {
  for (Stage stage : {Stage::Graph, Stage::Fused, Stage::Plan, Stage::Cuda, Stage::Cubin})
    if (stageName(stage) == name)
      return stage;
  return std::nullopt;
}

namespace {

// What MODEL may be.
const std::string plainModel = "a .toml, a directory with config.json, a GGUF file or llm.c's .bin";
const std::string planOrModel = "a plan, " + plainModel;

/// An option that may be repeated. It takes one value each time, so that MODEL may follow.
template <class T> CLI::Option *addEach(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                        const std::string &help) {
  return sub.add_option(name, values, help)->take_all()->allow_extra_args(false);
}

template <class T> void readItem(const std::string &text, T &value) { CLI::detail::lexical_cast(text, value); }
void readItem(const std::string &text, Entry &entry) { entry = *findEntry(text); }

template <class T> std::string itemText(const T &value) { return formatv("{0}", value).str(); }
std::string itemText(Entry entry) { return entryName(entry).str(); }

/// An option of values separated by commas, each accepted by `check`. CLI11's own delimiter would skip empty values.
template <class T> CLI::Option *addList(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                        const OptionCheck &check, const std::string &help) {
  auto take = [name, &values, check](const std::string &text) {
    values.clear();
    SmallVector<StringRef> items;
    StringRef(text).split(items, ',');
    for (StringRef item : items) {
      if (std::string wrong = check(item.str()); !wrong.empty())
        throw CLI::ValidationError(name, wrong);
      readItem(item.str(), values.emplace_back());
    }
  };
  std::string defaults = llvm::join(llvm::map_range(values, [](const T &value) { return itemText(value); }), ",");
  return sub.add_option_function<std::string>(name, take, help)->default_str(defaults);
}

void addDType(CLI::App &sub, std::optional<std::string> &dtype) {
  sub.add_option_function<std::string>(
         "--dtype",
         [&dtype](const std::string &name) { dtype = StringRef(name).starts_with("fp") ? "f" + name.substr(2) : name; },
         "type of weights, activations and cache: f32, f16, bf16, or tf32, f32 whose products of prompts tensor cores "
         "round")
      ->check(oneOf({"f32", "f16", "bf16", "tf32", "fp32", "fp16"}))
      ->default_str(PipelineOptions().dtype);
}

void addMatmul(CLI::App &sub, std::optional<std::string> &matmul) {
  sub.add_option("--matmul", matmul,
                 "what runs the matrix products of prompts: generated kernels, cublaslt, or auto, what "
                 "should be faster")
      ->check(oneOf({"generated", "cublaslt", "auto"}))
      ->default_str(PipelineOptions().matmul);
}

void addDecode(CLI::App &sub, std::optional<std::string> &decode) {
  sub.add_option(
         "--decode", decode,
         "what runs the layers of a new token: graph, a kernel for each product and attention, or persistent, one "
         "kernel for all (16 bits, Hopper, up to 8 sequences)")
      ->check(oneOf({"graph", "persistent"}))
      ->default_str(PipelineOptions().decode);
}

void addTuning(CLI::App &sub, std::optional<std::string> &tuning) {
  sub.add_option("--tuning", tuning, "what was measured of kernels: shipped, none, or a file of kiln tune")
      ->check(checkNotEmpty)
      ->default_str(PipelineOptions().tuning);
}

/// An option that prints a list and ends the program. As with --help, other arguments are not checked.
void addListing(CLI::App &sub, const char *name, const char *summary, void (*list)(raw_ostream &os)) {
  sub.add_flag_callback(
         name,
         [list] {
           list(standardOutput());
           throw CLI::Success();
         },
         summary)
      ->trigger_on_parse();
}

void addStrategy(CLI::App &sub, std::optional<std::string> &strategy) {
  sub.add_option("--strategy", strategy, "optimisations by name, like matmul=tiled,layernorm=3")
      ->check([](const std::string &text) { return text.empty() ? "expected strategies, got none" : ""; });
  addListing(sub, "--list-strategies", "print what there is for --strategy", listStrategies);
}

void addPipeline(CLI::App &sub, PipelineChoices &pipeline) {
  addDType(sub, pipeline.dtype);
  addStrategy(sub, pipeline.strategy);
  addMatmul(sub, pipeline.matmul);
  addDecode(sub, pipeline.decode);
  addTuning(sub, pipeline.tuning);
}

OptionCheck targetName() {
  std::vector<std::string> names;
  for (const Target &target : allTargets())
    names.push_back(target.name);
  return oneOf(names);
}

void addTarget(CLI::App &sub, std::string &target) {
  sub.add_option("--target", target, "the GPU's, a name of graphs/targets/")
      ->check(targetName())
      ->capture_default_str();
}

void addDevice(CLI::App &sub, std::string &device) {
  sub.add_option("--device", device, "cpu (the reference executor), emulate, cuda:N, or auto: the first GPU, else cpu")
      ->check(checkDevice)
      ->capture_default_str();
}

/// --device, for a command that needs kernels.
void addKernelDevice(CLI::App &sub, std::string &device) {
  sub.add_option("--device", device, "emulate, cuda:N, or auto: the first GPU")
      ->check(checkDevice)
      ->capture_default_str();
}

void addCompile(CLI::App &app, CompileCommand &command) {
  CLI::App *sub = app.add_subcommand("compile", "Compile a model into a kernel plan");
  sub->add_option("MODEL", command.model,
                  "a .toml, a directory with config.json, a GGUF file, llm.c's .bin, or IR text, .kiln")
      ->required();
  addList(*sub, "--target", command.targets, targetName(), "GPUs that kernels run on; tiles are chosen for the first")
      ->default_str(PipelineOptions().target);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--max-batch", command.maxBatch, "most sequences at once")
      ->check(integer(1, 4096))
      ->capture_default_str();
  sub->add_option("--draft-tokens", command.pipeline.draftTokens,
                  "also make @verify, which checks up to this many guesses of a sequence at once")
      ->check(integer(1, 63));
  sub->add_option("--passes", command.passes,
                  "passes to run in place of the usual ones, like a,b{n=2}; they choose dtype, kernels and tiles")
      ->check(checkNotEmpty)
      ->excludes(sub->get_option("--dtype"))
      ->excludes(sub->get_option("--strategy"))
      ->excludes(sub->get_option("--matmul"))
      ->excludes(sub->get_option("--decode"))
      ->excludes(sub->get_option("--tuning"))
      ->excludes(sub->get_option("--draft-tokens"));
  sub->add_option_function<std::string>(
         "--stage", [&command](const std::string &name) { command.stage = *parseStage(name); },
         "where to stop: graph, fused and plan print IR, cuda makes a plan without cubins")
      ->check(oneOf({"graph", "fused", "plan", "cuda", "cubin"}))
      ->default_str(stageName(command.stage).str());
  sub->add_option("-o", command.output, "the plan's directory (default: the model's name + .plan), or the IR's file")
      ->check(checkNotEmpty);
  sub->add_option("--dump-dir", command.dumpDirectory, "also write the IR of every stage and self-contained CUDA there")
      ->check(checkNotEmpty);
  sub->add_flag("--no-cache", command.noCache, "compile every kernel anew");
  sub->add_flag("--quiet", command.quiet, "no progress, no summary");
}

void addDump(CLI::App &app, DumpCommand &command) {
  CLI::App *sub = app.add_subcommand("dump", "Show what is in a plan");
  sub->add_option("PLAN", command.plan, "a plan's directory")->required();
  sub->add_option("--kernel", command.kernel, "only this kernel")->check(checkNotEmpty);
  sub->add_option("--what", command.what, "ir, plan, cuda, ptx or resources; all of them with -o, else resources")
      ->check(oneOf({"ir", "plan", "cuda", "ptx", "resources"}));
  sub->add_option("-o", command.output, "write files into this directory, CUDA self-contained, instead of printing")
      ->check(checkNotEmpty);
}

void addWeights(CLI::App &sub, WeightOptions &weights) {
  CLI::Option *path = sub.add_option("--weights", weights.path,
                                     "directory with model.safetensors and vocabulary, a GGUF file or llm.c's .bin "
                                     "(default: MODEL, or what a plan was compiled from)");
  path->check(checkNotEmpty);
  sub.add_option("--random-weights", weights.randomSeed, "random weights from this seed instead")
      ->check(checkSeed)
      ->excludes(path);
}

void addSampling(CLI::App &sub, RunCommand &command) {
  SamplingParams &sampling = command.generate.sampling;
  sampling.topK = 50; // the default of transformers' sampling
  CLI::Option *greedy = sub.add_flag("--greedy", sampling.greedy, "take the most probable token");
  sub.add_option("--temperature", sampling.temperature, "divides the logits; 0: as --greedy")
      ->check(checkTemperature)
      ->excludes(greedy)
      ->capture_default_str();
  sub.add_option("--top-k", sampling.topK, "keep the k most probable tokens; 0: all")
      ->check(checkZeroOrMore)
      ->excludes(greedy)
      ->capture_default_str();
  sub.add_option("--top-p", sampling.topP, "keep the most probable tokens that sum to p, with the one that crosses it")
      ->check(positiveNumber(1))
      ->excludes(greedy)
      ->capture_default_str();
  sub.add_option("--min-p", sampling.minP, "keep tokens at least p times as probable as the most probable one; 0: all")
      ->check(checkMinP)
      ->excludes(greedy)
      ->capture_default_str();
  sub.add_option("--seed", sampling.seed, "of the random numbers")
      ->check(checkSeed)
      ->excludes(greedy)
      ->capture_default_str();
}

void addPrompts(CLI::App &sub, PromptOptions &prompts) {
  addEach(sub, "--prompt", prompts.texts, "text to continue; may be given several times");
  addEach(sub, "--prompt-file", prompts.files, "file to continue; - is standard input");
  addEach(sub, "--tokens", prompts.tokens, "token ids to continue, 1,2,3; - is standard input");
  sub.add_flag("--special", prompts.special, "special tokens in --prompt and --prompt-file become their ids");
}

/// Options that help to find mistakes in kernels.
void addKernelChecks(CLI::App &sub, RunCommand &command) {
  sub.add_option("--check", command.check,
                 "memory: on the device emulate, every access; none: only what costs nothing; "
                 "reference: as memory, and compare every step with the reference executor")
      ->check(oneOf({"memory", "none", "reference"}))
      ->capture_default_str();
  sub.add_option("--schedule", command.schedule,
                 "order of threads on the device emulate: in-order, reversed or random:SEED")
      ->check(checkSchedule)
      ->capture_default_str();
  sub.add_option("--kernels-from", command.kernelsFrom,
                 "directory with edited kernels, NAME.cu, to run in place of the plan's")
      ->check(checkNotEmpty);
}

void addDraft(CLI::App &sub, DraftOptions &draft) {
  CLI::Option *what =
      sub.add_option("--draft", draft.what,
                     "guess tokens, and check several at once: ngram (by the text so far), or a plan or model with the "
                     "same vocabulary; the tokens stay the same")
          ->check(checkNotEmpty);
  sub.add_option("--draft-weights", draft.weights, "directory with the draft's model.safetensors (default: the draft)")
      ->check(checkNotEmpty)
      ->needs(what);
  auto take = [&draft](const std::string &text) {
    draft.isAuto = text == "auto";
    if (!draft.isAuto)
      readItem(text, draft.tokens.emplace());
  };
  sub.add_option_function<std::string>("--draft-tokens", take,
                                       "guesses of a pass, or auto: fewer where they are refused")
      ->check(checkDraftTokens)
      ->needs(what)
      ->default_str("4");
}

void addRun(CLI::App &app, RunCommand &command) {
  CLI::App *sub = app.add_subcommand("run", "Generate text");
  sub->add_option("MODEL", command.model, planOrModel)->required();
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  addPrompts(*sub, command.prompts);
  sub->add_option("--max-new-tokens", command.generate.maxNewTokens, "of each sequence")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  addSampling(*sub, command);
  addEach(*sub, "--stop", command.generate.stopStrings, "end a sequence when its text contains this");
  sub->add_flag("--ignore-eos", command.generate.ignoreEos, "go on after the end-of-text token");
  sub->add_option("--overflow", command.overflow, "past the context: error, stop or slide")
      ->check(oneOf({"error", "stop", "slide"}))
      ->capture_default_str();
  addDraft(*sub, command.draft);
  addDevice(*sub, command.device);
  addKernelChecks(*sub, command);
  CLI::Option *json = sub->add_flag("--json", command.json, "one JSON object a sequence");
  sub->add_flag("--logits", command.wantLogits, "with --json: the logits that chose each token")->needs(json);
  sub->add_flag("--no-echo", command.noEcho, "print the new text only")->excludes(json);
  sub->add_flag("--quiet", command.quiet, "no summary");
}

void addTokenize(CLI::App &app, TokenizeCommand &command) {
  CLI::App *sub = app.add_subcommand("tokenize", "Show the token ids of a text");
  sub->add_option("MODEL", command.model, "directory with a vocabulary, a GGUF file, or llm.c's tokenizer or model")
      ->required();
  addEach(*sub, "--text", command.texts, "the text");
  addEach(*sub, "--file", command.files, "a file; - is standard input");
  sub->add_flag("--special", command.special, "special tokens in the text become their ids");
  sub->add_flag("--json", command.json, "a JSON object a text");
}

void addEval(CLI::App &app, EvalCommand &command) {
  CLI::App *sub = app.add_subcommand("eval", "Perplexity of a model on a text");
  sub->add_option("MODEL", command.model, planOrModel)->required();
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--text", command.text, "file to score; - is standard input")->required();
  sub->add_option("--window", command.window, "tokens the model sees at once; 0: its context")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--stride", command.stride, "tokens between windows; 0: the window")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  addDevice(*sub, command.device);
  sub->add_flag("--json", command.json, "a JSON object");
  sub->add_flag("--quiet", command.quiet, "no progress");
}

/// The command itself; addLadder() adds its subcommand `ladder`.
CLI::App *addBench(CLI::App &app, BenchCommand &command) {
  CLI::App *sub = app.add_subcommand("bench", "Time a plan, or count what it does; `bench ladder`: every optimisation");
  sub->add_option("MODEL", command.model, planOrModel);
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--what", command.what, "decode, prefill, score, or each of the kernels")
      ->check(oneOf({"decode", "prefill", "score", "kernels"}))
      ->capture_default_str();
  sub->add_option("--of", command.of, "with --what kernels: of decode, prefill or score")
      ->check(oneOf({"decode", "prefill", "score"}))
      ->capture_default_str();
  addList(*sub, "--batch", command.batches, checkCount, "sequences at once, 1,8,32");
  addList(*sub, "--length", command.lengths, checkZeroOrMore, "tokens of a prompt, or the position of decode");
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  sub->add_option("--runs", command.options.runsPerSample, "runs in one measurement")
      ->check(checkCount)
      ->capture_default_str();
  addKernelDevice(*sub, command.device);
  sub->add_option("-o", command.format, "md, csv or json")->check(oneOf({"md", "csv", "json"}))->capture_default_str();
  return sub;
}

OptionCheck partName() {
  std::vector<std::string> names;
  for (const LadderPart &part : allLadderParts())
    names.push_back(part.name.str());
  return oneOf(names);
}

/// The subcommand of kiln bench; it takes a model of its own.
void addLadder(CLI::App &bench, LadderOptions &command) {
  CLI::App *sub = bench.add_subcommand("ladder", "Compile, check and time every optimisation, step by step");
  sub->add_option("MODEL", command.model, plainModel)->required();
  addWeights(*sub, command.weights);
  addList(*sub, "--parts", command.parts, partName(), "of the ladder, matmul,layernorm (default: all)");
  addListing(*sub, "--list", "print parts and rungs, with their strategies", listLadder);
  CLI::Option *scored = sub->add_option("--eval", command.scored,
                                        "directory of a model with weights and vocabulary, whose perplexity each "
                                        "rung that changes arithmetic is to find");
  scored->check(checkNotEmpty)
      ->needs(sub->add_option("--text", command.text, "file to score; - is standard input")
                  ->check(checkNotEmpty)
                  ->needs(scored));
  addTarget(*sub, command.target);
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  addKernelDevice(*sub, command.device);
  sub->add_option("--report", command.page, "also write an HTML page there")->check(checkNotEmpty);
  sub->add_option("-o", command.format, "md or json")->check(oneOf({"md", "json"}))->capture_default_str();
  sub->add_flag("--quiet", command.quiet, "no progress");
}

void addReport(CLI::App &app, ReportCommand &command) {
  CLI::App *sub = app.add_subcommand("report", "Show a plan as an HTML page, or two beside each other");
  sub->add_option("PLAN", command.plan, "a plan's directory")->required();
  CLI::Option *second = sub->add_option("PLAN2", command.secondPlan, "another's, to compare with");
  sub->add_option("--profile", command.profile,
                  "times of PLAN's kernels: a file that kiln bench --what kernels -o json printed");
  sub->add_option("--profile2", command.secondProfile, "times of PLAN2's kernels")->needs(second);
  sub->add_option("--batch", command.batch, "sequences of the calls that are counted (default: the profile's, or 1)")
      ->check(checkCount);
  sub->add_option("--length", command.length,
                  "tokens of a prompt, or the position of decode (default: the profile's, or 64)")
      ->check(checkZeroOrMore);
  sub->add_option("-o", command.output, "the file to write; - is standard output")->check(checkNotEmpty)->required();
}

void addCheck(CLI::App &app, CheckCommand &command) {
  CLI::App *sub = app.add_subcommand("check", "Compare a model with what PyTorch computed for llm.c");
  sub->add_option("MODEL", command.model, planOrModel)->required();
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--debug-state", command.debugState, "llm.c's file of inputs, targets, logits and loss")
      ->check(checkNotEmpty)
      ->required();
  sub->add_option("--tolerance", command.tolerance, "largest difference of a logit and of the loss")
      ->check(positiveNumber())
      ->capture_default_str();
  addDevice(*sub, command.device);
  sub->add_flag("--json", command.json, "a JSON object");
  sub->add_flag("--quiet", command.quiet, "no progress");
}

void addTune(CLI::App &app, TuneOptions &command) {
  CLI::App *sub = app.add_subcommand("tune", "Measure which configuration of each kernel is the fastest");
  sub->add_option("MODEL", command.model, plainModel)->required();
  addDType(*sub, command.pipeline.dtype);
  addTarget(*sub, command.target);
  addList(*sub, "--what", command.entries, oneOf({"prefill", "decode", "score"}),
          "functions whose kernels are measured");
  addList(*sub, "--batch", command.batches, checkCount, "sequences at once");
  addList(*sub, "--length", command.lengths, checkCount, "tokens of a prompt");
  sub->add_option("--within", command.mostOfBest,
                  "leave out what should take more than so many times as long as the best")
      ->check(positiveNumber())
      ->capture_default_str();
  sub->add_option("--trials", command.mostTrials, "most configurations of a kernel, the likeliest")
      ->check(checkCount)
      ->capture_default_str();
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  addKernelDevice(*sub, command.device);
  sub->add_option("--report", command.page, "also write an HTML page of all trials there")->check(checkNotEmpty);
  sub->add_option("-o", command.output, "the database (default: the model's name + .tuning.toml)")
      ->check(checkNotEmpty);
  sub->add_flag("--quiet", command.quiet, "no progress");
}

} // namespace

void addCommands(CLI::App &app, Commands &commands) {
  addCompile(app, commands.compile);
  addDump(app, commands.dump);
  addRun(app, commands.run);
  addTokenize(app, commands.tokenize);
  addEval(app, commands.eval);
  addLadder(*addBench(app, commands.bench), commands.ladder);
  addReport(app, commands.report);
  addTune(app, commands.tune);
  addImport(app, commands.importing);
  addExport(app, commands.exporting);
  addCheck(app, commands.check);
}

Command chosenCommand(StringRef name, Commands commands) {
  if (name == "compile")
    return std::move(commands.compile);
  if (name == "dump")
    return std::move(commands.dump);
  if (name == "run")
    return std::move(commands.run);
  if (name == "tokenize")
    return std::move(commands.tokenize);
  if (name == "eval")
    return std::move(commands.eval);
  if (name == "bench")
    return std::move(commands.bench);
  if (name == "ladder")
    return std::move(commands.ladder);
  if (name == "report")
    return std::move(commands.report);
  if (name == "tune")
    return std::move(commands.tune);
  if (name == "import")
    return std::move(commands.importing);
  if (name == "export")
    return std::move(commands.exporting);
  if (name == "check")
    return std::move(commands.check);
  return std::monostate();
}

} // namespace kiln
