// The options of the commands, but for those of the other files here. CLI11 is slow to compile and throws: only these
// files and CommandLine.cpp include it.
#include "tools/kiln/options/Options.h"

#include "tools/kiln/options/SharedOptions.h"

#include "kernels/targets/Target.h"

namespace kiln {

std::optional<Stage> parseStage(StringRef name) {
  for (Stage stage : {Stage::Graph, Stage::Fused, Stage::Plan, Stage::Cuda, Stage::Cubin})
    if (stageName(stage) == name)
      return stage;
  return std::nullopt;
}

namespace {

void addCompile(CLI::App &app, CompileCommand &command) {
  CLI::App *sub = app.add_subcommand("compile", "Compile a model into a kernel plan");
  sub->add_option("MODEL", command.model,
                  "a .toml, a directory with config.json, a GGUF file, llm.c's .bin, or IR text, .kiln")
      ->required();
  std::vector<std::string> targets = targetNames();
  llvm::append_range(targets, ptxTargets());
  addList(*sub, "--target", command.targets, checkCodeTargetName,
          "GPUs that kernels run on, and compute_80 or later for PTX, which drivers compile for later GPUs; tiles are "
          "chosen for the first")
      ->check(allowAll, "", wordsName(targets))
      ->default_str(PipelineOptions().target);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--max-batch", command.maxBatch, "most sequences at once")
      ->check(integer(1, mostSequences))
      ->capture_default_str();
  sub->add_option("--draft-tokens", command.pipeline.draftTokens,
                  "also make @verify, which checks up to this many guesses of a sequence at once")
      ->check(integer(1, mostDraftTokens));
  addRanks(*sub, command.pipeline.ranks);
  sub->add_option("--passes", command.passes,
                  "passes to run in place of the usual ones, like a,b{n=2}; they choose dtype, kernels and tiles")
      ->check(checkNotEmpty);
  sub->add_option_function<std::string>(
         "--stage",
         [&command](const std::string &name) {
           command.stage = *parseStage(name);
           command.withCubins = command.stage == Stage::Cubin;
         },
         "where to stop: graph, fused and plan print IR, cuda makes a plan without cubins")
      ->check(word({"graph", "fused", "plan", "cuda", "cubin"}))
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
      ->check(word({"ir", "plan", "cuda", "ptx", "resources"}));
  sub->add_option("-o", command.output, "write files into this directory, CUDA self-contained, instead of printing")
      ->check(checkNotEmpty);
}

void addSampling(CLI::App &sub, RunCommand &command) {
  SamplingParams &sampling = command.sequence.sampling;
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

void addLogitOptions(CLI::App &sub, LogitOptions &logits) {
  sub.add_option("--repetition-penalty", logits.repetitionPenalty,
                 "divides positive logits of tokens that the text has, and multiplies negative ones; 1: off")
      ->check(checkRepetitionPenalty())
      ->capture_default_str();
  sub.add_option("--presence-penalty", logits.presencePenalty,
                 "subtracted from the logits of tokens that the new text has; 0: off")
      ->check(checkLogitShift())
      ->capture_default_str();
  auto take = [&logits](const std::vector<std::string> &texts) {
    for (const std::string &text : texts) {
      auto [id, bias] = StringRef(text).split(':');
      int32_t token;
      double value;
      if (id.getAsInteger(10, token) || bias.getAsDouble(value))
        continue;
      if (!logits.bias.emplace(token, static_cast<float>(value)).second)
        throw CLI::ValidationError("--logit-bias", "token " + std::to_string(token) + " is given twice");
    }
  };
  sub.add_option_function<std::vector<std::string>>("--logit-bias", take, "ID:BIAS, added to the logit of a token")
      ->check(checkLogitBias)
      ->take_all()
      ->allow_extra_args(false);
}

/// An option whose values go into one list with those of others, in the order of the command line: CLI11 takes the
/// values of each when it has parsed all of them, unless it is told to take each at once.
void addPrompt(CLI::App &sub, const std::string &name, GivenPrompt::Kind kind, PromptOptions &prompts,
               const std::string &help) {
  auto take = [&prompts, kind](const std::string &value) { prompts.given.push_back({kind, value}); };
  sub.add_option_function<std::string>(name, take, help)->take_all()->allow_extra_args(false)->trigger_on_parse();
}

void addPrompts(CLI::App &sub, PromptOptions &prompts) {
  using Kind = GivenPrompt::Kind;
  addPrompt(sub, "--prompt", Kind::Text, prompts, "text to continue; may be given several times");
  addPrompt(sub, "--prompt-file", Kind::File, prompts, "file to continue; - is standard input");
  addPrompt(sub, "--tokens", Kind::Tokens, prompts, "token ids to continue, 1,2,3; - is standard input");
  sub.add_flag("--special", prompts.special, "special tokens in the text of prompts become their ids");
}

void addLines(CLI::App &sub, LinesOptions &lines) {
  CLI::Option *input =
      sub.add_option("--input", lines.input, "prompts and options, an object of JSON a line; - is standard input")
          ->check(checkNotEmpty);
  CLI::Option *output =
      sub.add_option("--output", lines.output, "results, an object of JSON a line, in the order of the input")
          ->check(checkNotEmpty)
          ->needs(input)
          ->capture_default_str();
  sub.add_flag("--resume", lines.resume, "go on with the output of a run that was cut off")->needs(output);
  sub.add_option("--batch", lines.batch,
                 "lines that run side by side on each device (64, or what a plan takes; 1 on the device cpu)")
      ->check(integer(1, mostSequences))
      ->needs(input);
}

/// Options that help to find mistakes in kernels.
void addKernelChecks(CLI::App &sub, RunCommand &command) {
  sub.add_option("--check", command.check,
                 "memory: on the device emulate, every access; none: only what costs nothing; "
                 "reference: as memory, and compare every step with the reference executor")
      ->check(word({"memory", "none", "reference"}))
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
  addRanks(*sub, command.pipeline.ranks);
  addProcesses(*sub, command.processes);
  addPrompts(*sub, command.prompts);
  addLines(*sub, command.lines);
  sub->add_flag("--interactive", command.interactive,
                "continue each line that is entered, with all lines and answers before it; Ctrl-C ends an answer");
  sub->add_option("--n", command.samples, "sequences for each prompt")->check(checkSamples)->capture_default_str();
  sub->add_option("--max-new-tokens", command.sequence.maxNewTokens, "of each sequence")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  addSampling(*sub, command);
  addLogitOptions(*sub, command.sequence.logits);
  addEach(*sub, "--stop", command.sequence.stopStrings, "end a sequence when its text contains this");
  sub->add_flag("--ignore-eos", command.sequence.ignoreEos, "go on after the end-of-text token");
  sub->add_option("--overflow", command.overflow, "past the context: error, stop or slide")
      ->check(word(overflowWords()))
      ->default_str("error");
  addDraft(*sub, command.draft);
  addDevices(*sub, command.device);
  addKernelChecks(*sub, command);
  sub->add_flag("--trace-kernels", command.traceKernels, "with --trace: also every kernel, launched by itself")
      ->needs(addTrace(*sub, command.trace));
  CLI::Option *json = sub->add_flag("--json", command.json, "one JSON object a sequence");
  sub->add_flag("--logits", command.wantLogits, "with --json: the logits that chose each token")->needs(json);
  CLI::Option *logProbabilities =
      sub->add_option("--logprobs", command.sequence.logProbabilities,
                      "log-probabilities of each new token and of the K most probable ones in its place; without "
                      "--json or --input a table, in place of the text");
  logProbabilities->check(checkAlternatives);
  CLI::Option *echo = sub->add_flag("--echo", command.sequence.echo, "--logprobs also of the prompt's tokens");
  echo->needs(logProbabilities);
  sub->add_flag("--no-echo", command.noEcho, "print the new text only")->excludes(json)->excludes(logProbabilities);
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
  addCompare(app, commands.compare);
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
  if (name == "compare")
    return std::move(commands.compare);
  return std::monostate();
}

} // namespace kiln
