// CLI11 is slow to compile and throws: this file keeps both to itself.
#include "CommandLine.h"

#include "support/Version.h"

#include <CLI/CLI.hpp>

namespace kiln {

namespace {

/// Rejects devices that no build knows, as a usage error.
const CLI::Validator isDevice(
    [](const std::string &name) {
      bool isKnown = name == "auto" || name == "cpu" || name == "emulate" || StringRef(name).starts_with("cuda");
      return isKnown ? std::string() : "expected auto, cpu, emulate or cuda:N, got " + name;
    },
    "DEVICE");

void addDType(CLI::App &sub, DType &dtype) {
  static const std::map<std::string, DType> dtypes = {
      {"f32", DType::F32}, {"fp32", DType::F32}, {"f16", DType::F16}, {"fp16", DType::F16}, {"bf16", DType::BF16}};
  sub.add_option("--dtype", dtype, "type of weights, activations and cache: f32 (default), f16 or bf16")
      ->transform(CLI::CheckedTransformer(dtypes));
}

CLI::App *addCompile(CLI::App &app, CompileCommand &command) {
  CLI::App *sub = app.add_subcommand("compile", "Compile a model into a kernel plan");
  sub->add_option("MODEL", command.model, "a .toml, a directory with config.json, or IR text, .kiln")->required();
  sub->add_option("--target", command.targets, "GPUs to make cubins for; tiles are chosen for the first")
      ->delimiter(',')->capture_default_str();
  addDType(*sub, command.dtype);
  sub->add_option("--max-batch", command.maxBatch, "most sequences at once")->check(CLI::Range(1, 4096))->capture_default_str();
  sub->add_option("--passes", command.passes, "passes to run in place of the usual ones, like a,b{n=2}; they choose the dtype")
      ->excludes(sub->get_option("--dtype"));
  sub->add_option("--stage", command.stage, "where to stop; graph, fused and plan print IR")
      ->check(CLI::IsMember({"graph", "fused", "plan", "cuda", "cubin"}))->capture_default_str();
  sub->add_option("-o", command.output, "the plan's directory (default: the model's name + .plan), or the IR's file");
  sub->add_option("--dump-dir", command.dumpDirectory, "also write the IR of every stage and self-contained CUDA there");
  sub->add_flag("--no-cache", command.noCache, "compile every kernel anew");
  sub->add_flag("--quiet", command.quiet, "no progress, no summary");
  return sub;
}

CLI::App *addDump(CLI::App &app, DumpCommand &command) {
  CLI::App *sub = app.add_subcommand("dump", "Show what is in a plan");
  sub->add_option("PLAN", command.plan, "a plan's directory")->required();
  sub->add_option("--kernel", command.kernel, "only this kernel");
  sub->add_option("--what", command.what, "ir, plan, cuda, ptx or resources; all of them with -o, else resources")
      ->check(CLI::IsMember({"ir", "plan", "cuda", "ptx", "resources"}));
  sub->add_option("-o", command.output, "write files into this directory, CUDA self-contained, instead of printing");
  return sub;
}

void addWeights(CLI::App &sub, WeightOptions &weights) {
  sub.add_option("--weights", weights.directory, "directory with model.safetensors and vocabulary (default: MODEL)");
  sub.add_option("--random-weights", weights.randomSeed, "random weights from this seed instead");
}

void addSampling(CLI::App &sub, RunCommand &command) {
  SamplingParams &sampling = command.generate.sampling;
  sampling.topK = 50; // as transformers samples when it is asked to
  sub.add_flag("--greedy", sampling.greedy, "take the most probable token");
  sub.add_option("--temperature", sampling.temperature, "divides the logits")->capture_default_str();
  sub.add_option("--top-k", sampling.topK, "keep the k most probable tokens; 0: all")->capture_default_str();
  sub.add_option("--top-p", sampling.topP, "keep the most probable tokens that sum to p, with the one that crosses it")
      ->capture_default_str();
  sub.add_option("--seed", sampling.seed, "of the random numbers")->capture_default_str();
}

CLI::App *addRun(CLI::App &app, RunCommand &command) {
  CLI::App *sub = app.add_subcommand("run", "Generate text");
  sub->add_option("MODEL", command.model, "a plan, a .toml, or a directory with config.json")->required();
  addWeights(*sub, command.weights);
  addDType(*sub, command.dtype);
  sub->add_option("--prompt", command.prompts.texts, "text to continue; may be given several times")->take_all();
  sub->add_option("--prompt-file", command.prompts.files, "file to continue; - is standard input")->take_all();
  sub->add_option("--tokens", command.prompts.tokens, "token ids to continue, 1,2,3; - is standard input")->take_all();
  sub->add_option("--max-new-tokens", command.generate.maxNewTokens, "of each sequence")->capture_default_str();
  addSampling(*sub, command);
  sub->add_option("--stop", command.generate.stopStrings, "end a sequence when its text contains this")->take_all();
  sub->add_flag("--ignore-eos", command.generate.ignoreEos, "go on after the end-of-text token");
  sub->add_option("--overflow", command.overflow, "past the context: error, stop or slide")
      ->check(CLI::IsMember({"error", "stop", "slide"}))->capture_default_str();
  sub->add_option("--device", command.device, "auto, cpu, emulate or cuda:N")
      ->check(isDevice)->capture_default_str();
  sub->add_option("--check", command.check, "reference: compare every step of the plan with the reference executor")
      ->check(CLI::IsMember({"reference"}));
  sub->add_flag("--logits", command.wantLogits, "with --json: the logits that chose each token");
  sub->add_flag("--json", command.json, "one JSON object a sequence");
  sub->add_flag("--no-echo", command.noEcho, "print the new text only");
  sub->add_flag("--quiet", command.quiet, "no summary");
  return sub;
}

CLI::App *addTokenize(CLI::App &app, TokenizeCommand &command) {
  CLI::App *sub = app.add_subcommand("tokenize", "Show the token ids of a text");
  sub->add_option("MODEL", command.model, "directory with a vocabulary")->required();
  sub->add_option("--text", command.texts, "the text")->take_all();
  sub->add_option("--file", command.files, "a file; - is standard input")->take_all();
  sub->add_flag("--special", command.special, "special tokens in the text become their ids");
  sub->add_flag("--json", command.json, "a JSON object");
  return sub;
}

CLI::App *addEval(CLI::App &app, EvalCommand &command) {
  CLI::App *sub = app.add_subcommand("eval", "Perplexity of a model on a text");
  sub->add_option("MODEL", command.model, "a plan, a .toml, or a directory with config.json")->required();
  addWeights(*sub, command.weights);
  addDType(*sub, command.dtype);
  sub->add_option("--text", command.text, "file to score; - is standard input")->required();
  sub->add_option("--window", command.window, "tokens the model sees at once; 0: its context")->capture_default_str();
  sub->add_option("--stride", command.stride, "tokens between windows; 0: the window")->capture_default_str();
  sub->add_option("--device", command.device, "auto, cpu, emulate or cuda:N")
      ->check(isDevice)->capture_default_str();
  sub->add_flag("--json", command.json, "a JSON object");
  sub->add_flag("--quiet", command.quiet, "no progress");
  return sub;
}

CLI::App *addBench(CLI::App &app, BenchCommand &command) {
  CLI::App *sub = app.add_subcommand("bench", "Time a plan, or count what it does");
  sub->add_option("MODEL", command.model, "a plan, a .toml, or a directory with config.json")->required();
  addWeights(*sub, command.weights);
  addDType(*sub, command.dtype);
  sub->add_option("--what", command.what, "decode, prefill, or each of the kernels")
      ->check(CLI::IsMember({"decode", "prefill", "kernels"}))->capture_default_str();
  sub->add_option("--of", command.of, "with --what kernels: of decode or prefill")
      ->check(CLI::IsMember({"decode", "prefill"}))->capture_default_str();
  sub->add_option("--batch", command.batches, "sequences at once, 1,8,32")->delimiter(',')->check(CLI::PositiveNumber)->capture_default_str();
  sub->add_option("--length", command.lengths, "tokens of a prompt, or the position of decode")
      ->delimiter(',')->check(CLI::NonNegativeNumber)->capture_default_str();
  sub->add_option("--samples", command.options.samples, "measurements")->check(CLI::PositiveNumber)->capture_default_str();
  sub->add_option("--runs", command.options.runsPerSample, "runs in one measurement")->check(CLI::PositiveNumber)->capture_default_str();
  sub->add_option("--device", command.device, "auto, emulate or cuda:N")->check(isDevice)->capture_default_str();
  sub->add_option("-o", command.format, "md, csv or json")->check(CLI::IsMember({"md", "csv", "json"}))->capture_default_str();
  return sub;
}

} // namespace

std::optional<int> parseCommandLine(int argc, char **argv, Command &command) {
  CLI::App app("Kiln compiles GPT-2 into fused CUDA", "kiln");
  app.set_version_flag("--version", compilerVersion);
  app.require_subcommand(1);
  CompileCommand compile;
  DumpCommand dump;
  RunCommand run;
  TokenizeCommand tokenize;
  EvalCommand eval;
  BenchCommand bench;
  CLI::App *compileApp = addCompile(app, compile), *dumpApp = addDump(app, dump), *runApp = addRun(app, run);
  CLI::App *tokenizeApp = addTokenize(app, tokenize), *evalApp = addEval(app, eval), *benchApp = addBench(app, bench);
  try {
    app.parse(argc, argv);
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
  else if (*benchApp)
    command = std::move(bench);
  return std::nullopt;
}

} // namespace kiln
