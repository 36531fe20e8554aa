// The options of the commands that measure: bench, ladder, report, tune.
#include "tools/kiln/options/SharedOptions.h"
#include "tools/ladder/Rungs.h"

namespace kiln {

/// The options of --what speculation.
static void addSpeculation(CLI::App &sub, BenchCommand &command) {
  command.draft.what = "ngram";
  sub.add_option("--draft", command.draft.what, "with --what speculation: ngram, or a plan or model that guesses")
      ->check(checkNotEmpty)
      ->capture_default_str();
  sub.add_option("--draft-weights", command.draft.weights,
                 "directory with the draft's model.safetensors (default: the draft's, or random ones)")
      ->check(checkNotEmpty);
  addList(sub, "--acceptance", command.acceptances, number(0, 1), "with --what speculation: rates of right guesses");
  addList(sub, "--draft-tokens", command.draftTokens, checkDraftTokens,
          "with --what speculation: guesses of a pass, 2,4,auto");
}

static void addWarmUp(CLI::App &sub, BenchmarkOptions &options) {
  sub.add_option("--warm-up", options.warmUpSeconds, "seconds of runs before the first measurement")
      ->check(number(0, 60))
      ->capture_default_str();
}

CLI::App *addBench(CLI::App &app, BenchCommand &command) {
  CLI::App *sub = app.add_subcommand("bench", "Time a plan, or count what it does; `bench ladder`: every optimisation");
  sub->add_option("MODEL", command.model, planOrModel);
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  addRanks(*sub, command.pipeline.ranks);
  sub->add_option("--what", command.what, "decode, generate, prefill, score, each of the kernels, or speculation")
      ->check(word({"decode", "generate", "prefill", "score", "kernels", "speculation"}))
      ->capture_default_str();
  sub->add_option("--of", command.of, "with --what kernels: of decode, prefill or score")
      ->check(word({"decode", "prefill", "score"}))
      ->capture_default_str();
  addList(*sub, "--batch", command.batches, checkCount, "sequences at once, 1,8,32");
  addSpeculation(*sub, command);
  addList(*sub, "--length", command.lengths, checkZeroOrMore, "tokens of a prompt, or the position of a new token");
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  sub->add_option("--runs", command.options.runsPerSample, "runs in one measurement")
      ->check(checkCount)
      ->capture_default_str();
  addWarmUp(*sub, command.options);
  addKernelDevices(*sub, command.device);
  sub->add_option("-o", command.format, "md, csv or json")->check(word({"md", "csv", "json"}))->capture_default_str();
  addTrace(*sub, command.trace);
  return sub;
}

static std::vector<std::string> partNames() {
  std::vector<std::string> names;
  for (const LadderPart &part : allLadderParts())
    names.push_back(part.name.str());
  return names;
}

void addLadder(CLI::App &bench, LadderOptions &command) {
  CLI::App *sub = bench.add_subcommand("ladder", "Compile, check and time every optimisation, step by step");
  sub->add_option("MODEL", command.model, plainModel)->required();
  addWeights(*sub, command.weights);
  addList(*sub, "--parts", command.parts, partNames(), "of the ladder, matmul,layernorm (default: all)");
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
  addKernelDevices(*sub, command.device);
  sub->add_option("--report", command.page, "also write an HTML page there")->check(checkNotEmpty);
  sub->add_option("-o", command.format, "md or json")->check(word({"md", "json"}))->capture_default_str();
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
  sub->add_option("-o", command.output, "the file to write; - is standard output")->check(checkNotEmpty);
  sub->add_option("--picture", command.picture, "an SVG to write: one layer of PLAN's prompts before and after fusion")
      ->check(checkNotEmpty);
}

void addTune(CLI::App &app, TuneOptions &command) {
  CLI::App *sub = app.add_subcommand("tune", "Measure which configuration of each kernel is the fastest");
  sub->add_option("MODEL", command.model, plainModel)->required();
  addDType(*sub, command.pipeline.dtype);
  addBatchInvariant(*sub, command.pipeline.batchInvariant);
  addTarget(*sub, command.target);
  sub->add_option("--tuning", command.tuning,
                  "what trials start from: none, the model's choices; shipped; or a file of kiln tune")
      ->check(checkNotEmpty)
      ->capture_default_str();
  addList(*sub, "--what", command.entries, std::vector<std::string>{"prefill", "decode", "score"},
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
  addList(*sub, "--only", command.only, checkNotEmpty,
          "measure problems whose name has one of these, matmul,attention");
  sub->add_flag("--in-calls", command.inCalls,
                "time whole calls with each configuration in turn, instead of its kernel alone");
  sub->add_option("--samples", command.options.samples, "measurements")->check(checkCount)->capture_default_str();
  addWarmUp(*sub, command.options);
  addKernelDevice(*sub, command.device);
  sub->add_option("--report", command.page, "also write an HTML page of all trials there")->check(checkNotEmpty);
  sub->add_option("-o", command.output, "the database (default: the model's name + .tuning.toml)")
      ->check(checkNotEmpty);
  sub->add_flag("--quiet", command.quiet, "no progress");
}

} // namespace kiln
