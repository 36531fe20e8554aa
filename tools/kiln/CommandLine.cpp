// CLI11 is slow to compile and throws: this file keeps both to itself.
#include "tools/kiln/CommandLine.h"
#include "tools/kiln/OptionChecks.h"
#include "tools/kiln/Version.h"
#include "tools/ladder/Rungs.h"

#include "strategies/Strategy.h"

#include <CLI/CLI.hpp>

namespace kiln {

namespace {

/// An option that may be given several times, a value each: MODEL may follow.
template <class T> CLI::Option *addEach(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                        const std::string &help) {
  return sub.add_option(name, values, help)->take_all()->allow_extra_args(false);
}

/// An option of values separated by commas, each as `check` wants it. CLI11's own delimiter passes over empty ones.
template <class T> void addList(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                const OptionCheck &check, const std::string &help) {
  auto take = [name, &values, check](const std::string &text) {
    values.clear();
    SmallVector<StringRef> items;
    StringRef(text).split(items, ',');
    for (StringRef item : items) {
      if (std::string wrong = check(item.str()); !wrong.empty())
        throw CLI::ValidationError(name, wrong);
      CLI::detail::lexical_cast(item.str(), values.emplace_back());
    }
  };
  std::string defaults =
      llvm::join(llvm::map_range(values, [](const T &value) { return formatv("{0}", value).str(); }), ",");
  sub.add_option_function<std::string>(name, take, help)->default_str(defaults);
}

void addDType(CLI::App &sub, std::string &dtype) {
  sub.add_option_function<std::string>(
         "--dtype",
         [&dtype](const std::string &name) { dtype = StringRef(name).starts_with("fp") ? "f" + name.substr(2) : name; },
         "type of weights, activations and cache: f32 (default), f16, bf16, or tf32, f32 whose products of "
         "prompts tensor cores round")
      ->check(oneOf({"f32", "f16", "bf16", "tf32", "fp32", "fp16"}));
}

void addMatmul(CLI::App &sub, std::string &matmul) {
  sub.add_option("--matmul", matmul,
                 "what runs the matrix products of prompts: generated kernels, cublaslt, or auto, what "
                 "should be faster")
      ->check(oneOf({"generated", "cublaslt", "auto"}))
      ->capture_default_str();
}

void addTuning(CLI::App &sub, std::string &tuning) {
  sub.add_option("--tuning", tuning, "what was measured of kernels: shipped, none, or a file of kiln tune")
      ->check(checkNotEmpty)
      ->capture_default_str();
}

/// An option that prints what there is. As with --help nothing else is looked at.
void addListing(CLI::App &sub, const char *name, const char *summary, void (*list)(raw_ostream &os)) {
  sub.add_flag_callback(
         name,
         [list] {
           list(llvm::outs());
           throw CLI::Success();
         },
         summary)
      ->trigger_on_parse();
}

void addStrategy(CLI::App &sub, std::string &strategy) {
  sub.add_option("--strategy", strategy, "optimisations by name, like matmul=tiled,layernorm=3")
      ->check([](const std::string &text) { return text.empty() ? "expected strategies, got none" : ""; });
  addListing(sub, "--list-strategies", "print what there is for --strategy", listStrategies);
}

void addPipeline(CLI::App &sub, PipelineChoices &pipeline) {
  addDType(sub, pipeline.dtype);
  addStrategy(sub, pipeline.strategy);
  addMatmul(sub, pipeline.matmul);
  addTuning(sub, pipeline.tuning);
}

CLI::App *addCompile(CLI::App &app, CompileCommand &command) {
  CLI::App *sub = app.add_subcommand("compile", "Compile a model into a kernel plan");
  sub->add_option("MODEL", command.model, "a .toml, a directory with config.json, or IR text, .kiln")->required();
  addList(*sub, "--target", command.targets, checkNotEmpty, "GPUs to make cubins for; tiles are chosen for the first");
  addPipeline(*sub, command.pipeline);
  sub->add_option("--max-batch", command.maxBatch, "most sequences at once")
      ->check(integer(1, 4096))
      ->capture_default_str();
  sub->add_option("--passes", command.passes,
                  "passes to run in place of the usual ones, like a,b{n=2}; they choose the dtype")
      ->excludes(sub->get_option("--dtype"))
      ->excludes(sub->get_option("--strategy"));
  sub->add_option("--stage", command.stage, "where to stop; graph, fused and plan print IR")
      ->check(oneOf({"graph", "fused", "plan", "cuda", "cubin"}))
      ->capture_default_str();
  sub->add_option("-o", command.output, "the plan's directory (default: the model's name + .plan), or the IR's file")
      ->check(checkNotEmpty);
  sub->add_option("--dump-dir", command.dumpDirectory,
                  "also write the IR of every stage and self-contained CUDA there");
  sub->add_flag("--no-cache", command.noCache, "compile every kernel anew");
  sub->add_flag("--quiet", command.quiet, "no progress, no summary");
  return sub;
}

CLI::App *addDump(CLI::App &app, DumpCommand &command) {
  CLI::App *sub = app.add_subcommand("dump", "Show what is in a plan");
  sub->add_option("PLAN", command.plan, "a plan's directory")->required();
  sub->add_option("--kernel", command.kernel, "only this kernel");
  sub->add_option("--what", command.what, "ir, plan, cuda, ptx or resources; all of them with -o, else resources")
      ->check(oneOf({"ir", "plan", "cuda", "ptx", "resources"}));
  sub->add_option("-o", command.output, "write files into this directory, CUDA self-contained, instead of printing")
      ->check(checkNotEmpty);
  return sub;
}

void addWeights(CLI::App &sub, WeightOptions &weights) {
  CLI::Option *directory = sub.add_option("--weights", weights.directory,
                                          "directory with model.safetensors and vocabulary (default: MODEL)");
  sub.add_option("--random-weights", weights.randomSeed, "random weights from this seed instead")
      ->check(checkSeed)
      ->excludes(directory);
}

void addSampling(CLI::App &sub, RunCommand &command) {
  SamplingParams &sampling = command.generate.sampling;
  sampling.topK = 50; // as transformers samples when it is asked to
  CLI::Option *greedy = sub.add_flag("--greedy", sampling.greedy, "take the most probable token");
  sub.add_option("--temperature", sampling.temperature, "divides the logits")
      ->check(positiveNumber())
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
  sub.add_option("--seed", sampling.seed, "of the random numbers")->check(checkSeed)->capture_default_str();
}

CLI::App *addRun(CLI::App &app, RunCommand &command) {
  CLI::App *sub = app.add_subcommand("run", "Generate text");
  sub->add_option("MODEL", command.model, "a plan, a .toml, or a directory with config.json")->required();
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  addEach(*sub, "--prompt", command.prompts.texts, "text to continue; may be given several times");
  addEach(*sub, "--prompt-file", command.prompts.files, "file to continue; - is standard input");
  addEach(*sub, "--tokens", command.prompts.tokens, "token ids to continue, 1,2,3; - is standard input");
  sub->add_option("--max-new-tokens", command.generate.maxNewTokens, "of each sequence")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  addSampling(*sub, command);
  addEach(*sub, "--stop", command.generate.stopStrings, "end a sequence when its text contains this");
  sub->add_flag("--ignore-eos", command.generate.ignoreEos, "go on after the end-of-text token");
  sub->add_option("--overflow", command.overflow, "past the context: error, stop or slide")
      ->check(oneOf({"error", "stop", "slide"}))
      ->capture_default_str();
  sub->add_option("--device", command.device, "auto, cpu, emulate or cuda:N")
      ->check(checkDevice)
      ->capture_default_str();
  sub->add_option("--check", command.check,
                  "memory: on the device emulate, every access; none: only what costs nothing; "
                  "reference: as memory, and compare every step with the reference executor")
      ->check(oneOf({"memory", "none", "reference"}))
      ->capture_default_str();
  sub->add_option("--schedule", command.schedule,
                  "order of threads on the device emulate: in-order, reversed or random:SEED")
      ->check(checkSchedule)
      ->capture_default_str();
  sub->add_option("--kernels-from", command.kernelsFrom,
                  "directory with edited kernels, NAME.cu, to run in place of the plan's");
  CLI::Option *json = sub->add_flag("--json", command.json, "one JSON object a sequence");
  sub->add_flag("--logits", command.wantLogits, "with --json: the logits that chose each token")->needs(json);
  sub->add_flag("--no-echo", command.noEcho, "print the new text only");
  sub->add_flag("--quiet", command.quiet, "no summary");
  return sub;
}

CLI::App *addTokenize(CLI::App &app, TokenizeCommand &command) {
  CLI::App *sub = app.add_subcommand("tokenize", "Show the token ids of a text");
  sub->add_option("MODEL", command.model, "directory with a vocabulary")->required();
  addEach(*sub, "--text", command.texts, "the text");
  addEach(*sub, "--file", command.files, "a file; - is standard input");
  sub->add_flag("--special", command.special, "special tokens in the text become their ids");
  sub->add_flag("--json", command.json, "a JSON object");
  return sub;
}

CLI::App *addEval(CLI::App &app, EvalCommand &command) {
  CLI::App *sub = app.add_subcommand("eval", "Perplexity of a model on a text");
  sub->add_option("MODEL", command.model, "a plan, a .toml, or a directory with config.json")->required();
  addWeights(*sub, command.weights);
  addDType(*sub, command.pipeline.dtype);
  addStrategy(*sub, command.pipeline.strategy);
  sub->add_option("--text", command.text, "file to score; - is standard input")->required();
  sub->add_option("--window", command.window, "tokens the model sees at once; 0: its context")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--stride", command.stride, "tokens between windows; 0: the window")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--device", command.device, "auto, cpu, emulate or cuda:N")
      ->check(checkDevice)
      ->capture_default_str();
  sub->add_flag("--json", command.json, "a JSON object");
  sub->add_flag("--quiet", command.quiet, "no progress");
  return sub;
}

CLI::App *addBench(CLI::App &app, BenchCommand &command) {
  CLI::App *sub = app.add_subcommand("bench", "Time a plan, or count what it does; `bench ladder`: every optimisation");
  sub->add_option("MODEL", command.model, "a plan, a .toml, or a directory with config.json");
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--what", command.what, "decode, prefill, or each of the kernels")
      ->check(oneOf({"decode", "prefill", "kernels"}))
      ->capture_default_str();
  sub->add_option("--of", command.of, "with --what kernels: of decode or prefill")
      ->check(oneOf({"decode", "prefill"}))
      ->capture_default_str();
  addList(*sub, "--batch", command.batches, checkCount, "sequences at once, 1,8,32");
  addList(*sub, "--length", command.lengths, checkZeroOrMore, "tokens of a prompt, or the position of decode");
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  sub->add_option("--runs", command.options.runsPerSample, "runs in one measurement")
      ->check(checkCount)
      ->capture_default_str();
  sub->add_option("--device", command.device, "auto, emulate or cuda:N")->check(checkDevice)->capture_default_str();
  sub->add_option("-o", command.format, "md, csv or json")->check(oneOf({"md", "csv", "json"}))->capture_default_str();
  return sub;
}

/// A command of kiln bench, with a model of its own.
CLI::App *addLadder(CLI::App &bench, LadderOptions &command) {
  CLI::App *sub = bench.add_subcommand("ladder", "Compile, check and time every optimisation, step by step");
  sub->add_option("MODEL", command.model, "a .toml, or a directory with config.json")->required();
  addWeights(*sub, command.weights);
  addList(*sub, "--parts", command.parts, checkNotEmpty, "of the ladder, matmul,layernorm (default: all)");
  addListing(*sub, "--list", "print parts and rungs, with their strategies", listLadder);
  CLI::Option *scored = sub->add_option("--eval", command.scored,
                                        "directory of a model with weights and vocabulary, whose perplexity each "
                                        "rung that changes arithmetic is to find");
  scored->check(checkNotEmpty)
      ->needs(sub->add_option("--text", command.text, "file to score; - is standard input")
                  ->check(checkNotEmpty)
                  ->needs(scored));
  sub->add_option("--target", command.target, "the GPU's")->check(checkNotEmpty)->capture_default_str();
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  sub->add_option("--device", command.device, "auto, emulate or cuda:N")->check(checkDevice)->capture_default_str();
  sub->add_option("--report", command.page, "also write an HTML page there")->check(checkNotEmpty);
  sub->add_option("-o", command.format, "md or json")->check(oneOf({"md", "json"}))->capture_default_str();
  sub->add_flag("--quiet", command.quiet, "no progress");
  return sub;
}

CLI::App *addReport(CLI::App &app, ReportCommand &command) {
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
  sub->add_option("-o", command.output, "the file to write; - is standard output")->required();
  return sub;
}

CLI::App *addTune(CLI::App &app, TuneOptions &command) {
  CLI::App *sub = app.add_subcommand("tune", "Measure which configuration of each kernel is the fastest");
  sub->add_option("MODEL", command.model, "a .toml, or a directory with config.json")->required();
  addDType(*sub, command.pipeline.dtype);
  sub->add_option("--target", command.target, "the GPU's")->check(checkNotEmpty)->capture_default_str();
  addList(*sub, "--what", command.functions, oneOf({"prefill", "decode"}), "functions whose kernels are measured");
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
  sub->add_option("--device", command.device, "auto, emulate or cuda:N")->check(checkDevice)->capture_default_str();
  sub->add_option("--report", command.page, "also write an HTML page of all trials there")->check(checkNotEmpty);
  sub->add_option("-o", command.output, "the database (default: the model's name + .tuning.toml)")
      ->check(checkNotEmpty);
  sub->add_flag("--quiet", command.quiet, "no progress");
  return sub;
}

/// CLI11's sentences in the style of this project's.
std::string usageMessage(const CLI::App *, const CLI::Error &error) {
  std::string message = error.what();
  bool isWord = message.size() > 1 && !llvm::isUpper(message[1]);
  if (isWord)
    message[0] = llvm::toLower(message[0]);
  return "error: " + message + "\nRun with --help for more information.\n";
}

/// The arguments, last one first as CLI11 takes them. It would give `--text=` the next argument for a value.
std::vector<std::string> reversedArguments(int argc, char **argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    StringRef argument = argv[i];
    bool isEmptyValue = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (isEmptyValue)
      arguments.push_back("");
    arguments.push_back(argument.drop_back(isEmptyValue ? 1 : 0).str());
  }
  return arguments;
}

} // namespace

std::optional<int> parseCommandLine(int argc, char **argv, Command &command) {
  CLI::App app("Kiln compiles GPT-2 into fused CUDA", "kiln");
  app.set_version_flag("--version", versionText);
  app.require_subcommand(1);
  app.failure_message(usageMessage);
  CompileCommand compile;
  DumpCommand dump;
  RunCommand run;
  TokenizeCommand tokenize;
  EvalCommand eval;
  BenchCommand bench;
  ReportCommand report;
  TuneOptions tune;
  LadderOptions ladder;
  CLI::App *compileApp = addCompile(app, compile), *dumpApp = addDump(app, dump), *runApp = addRun(app, run);
  CLI::App *tokenizeApp = addTokenize(app, tokenize), *evalApp = addEval(app, eval), *benchApp = addBench(app, bench);
  CLI::App *reportApp = addReport(app, report), *tuneApp = addTune(app, tune);
  CLI::App *ladderApp = addLadder(*benchApp, ladder);
  try {
    // CLI11 would only say that a command is missing.
    auto isChosen = [&](const CLI::App *sub) { return sub->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(isChosen).empty())
      throw CLI::ParseError("unknown command '" + std::string(argv[1]) + "'", 2);
    app.parse(reversedArguments(argc, argv));
    if (*benchApp && !*ladderApp && bench.model.empty())
      throw CLI::RequiredError("MODEL");
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*compileApp)
    command = std::move(compile);
  else if (*dumpApp)
    command = std::move(dump);
  else if (*runApp)
    command = std::move(run);
  else if (*tokenizeApp)
    command = std::move(tokenize);
  else if (*evalApp)
    command = std::move(eval);
  else if (*ladderApp)
    command = std::move(ladder);
  else if (*benchApp)
    command = std::move(bench);
  else if (*reportApp)
    command = std::move(report);
  else if (*tuneApp)
    command = std::move(tune);
  return std::nullopt;
}

} // namespace kiln
