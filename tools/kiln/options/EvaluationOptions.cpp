// The options of the commands that score and compare: eval, compare, check.
#include "tools/kiln/options/SharedOptions.h"

namespace kiln {

void addEval(CLI::App &app, EvalCommand &command) {
  CLI::App *sub = app.add_subcommand("eval", "Score a model on a text or on questions");
  sub->add_option("MODEL", command.model, planOrModel)->required();
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  addRanks(*sub, command.pipeline.ranks);
  addProcesses(*sub, command.processes);
  sub->add_option("--text", command.text, "file to score, a text or questions; - is standard input")->required();
  addEvalForm(*sub, command.form);
  sub->add_option("--window", command.window, "tokens the model sees at once; 0: its context")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--stride", command.stride, "tokens between windows; 0: the window")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--batch", command.batch,
                  "windows side by side on each device (16, or what a plan takes; 1 on the device cpu)")
      ->check(integer(1, mostSequences));
  addDevices(*sub, command.device);
  sub->add_flag("--json", command.json, "a JSON object");
  sub->add_flag("--quiet", command.quiet, "no progress");
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

void addCompare(CLI::App &app, CompareCommand &command) {
  CLI::App *sub = app.add_subcommand("compare", "Show how far a model is from another, or from another program");
  std::string file = "or a .safetensors file with tokens and logits";
  sub->add_option("A", command.a, "what is held to be right: " + planOrModel + ", " + file)->required();
  sub->add_option("B", command.b, "what is tried: the same")->required();
  addWeights(*sub, command.weights);
  addPipeline(*sub, command.pipeline);
  sub->add_option("--text", command.text, "file to compare on; - is standard input (default: A writes sequences)")
      ->check(checkNotEmpty);
  addEvalForm(*sub, command.form);
  sub->add_option("--window", command.window, "tokens of a sequence; 0: the context, or 128 of those that A writes")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--max-tokens", command.maxTokens, "tokens to compare on, the first; 0: all")
      ->check(checkZeroOrMore)
      ->capture_default_str();
  sub->add_option("--max-kl", command.mostDivergence, "fail if the mean KL divergence is above this")
      ->check(number(0, std::numeric_limits<double>::max()));
  sub->add_option("--min-agreement", command.leastAgreement, "fail if the share of equal best tokens is below this")
      ->check(number(0, 1));
  addDevice(*sub, command.device);
  sub->add_option("--device-a", command.deviceA, "the device of A, if another")
      ->check(checkDevice, "", wordsName({"auto", "cpu", "emulate", "cuda:0"}));
  sub->add_flag("--json", command.json, "a JSON object");
  sub->add_flag("--quiet", command.quiet, "no progress");
}

} // namespace kiln
