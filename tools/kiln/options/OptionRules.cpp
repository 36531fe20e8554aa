#include "tools/kiln/options/OptionRules.h"

#include "tools/compare/LogitsFile.h"

namespace kiln {

namespace {

/// The first of these options that was given, with the reason against it; empty if none was given.
std::string refuse(const GivenOptions &given, ArrayRef<StringRef> options, const Twine &reason) {
  for (StringRef option : options)
    if (given.count(option))
      return (option + ": " + reason).str();
  return "";
}

/// Whether a value of --device names several devices, or may do so.
bool areSeveral(StringRef devices) { return devices.contains(',') || devices == "cuda:all"; }

/// The reason against an option for which several devices were given.
std::string forOneDevice(StringRef devices) { return "expected one device, got --device " + devices.str(); }

std::string checkStage(const CompileCommand &command, const GivenOptions &given) {
  // The first stage that an option can affect.
  static const std::pair<Stage, std::vector<StringRef>> firsts[] = {
      {Stage::Fused, {"--dtype", "--decode", "--target", "--strategy", "--draft-tokens", "--passes"}},
      {Stage::Plan, {"--matmul", "--tuning", "--batch-invariant"}},
      {Stage::Cuda, {"--dump-dir"}},
      {Stage::Cubin, {"--no-cache"}}};
  for (const auto &[stage, options] : firsts) {
    StringRef since = stage == Stage::Cubin ? "" : " or later";
    if (command.stage < stage)
      if (std::string wrong = refuse(given, options,
                                     "expected --stage " + stageName(stage) + since + ", got " +
                                         stageName(command.stage) + ", on which it has no effect");
          !wrong.empty())
        return wrong;
  }
  return "";
}

std::string check(const CompileCommand &command, const GivenOptions &given) {
  if (std::string wrong = checkStage(command, given); !wrong.empty())
    return wrong;
  if (StringRef(command.model).ends_with(".kiln"))
    return refuse(given, {"--max-batch"}, "IR says itself what its dims are, like dim B : 1..64");
  return "";
}

std::string check(const DumpCommand &command, const GivenOptions &given) {
  if (command.what == "ir" || command.what == "plan")
    return refuse(given, {"--kernel"}, "expected --what cuda, ptx or resources, got " + command.what);
  return "";
}

std::string checkLines(const RunCommand &command, const GivenOptions &given) {
  if (std::string wrong =
          refuse(given, {"--prompt", "--prompt-file", "--tokens"}, "expected no --input, whose lines have the prompts");
      !wrong.empty())
    return wrong;
  if (std::string wrong = refuse(given, {"--json", "--no-echo"}, "expected no --input, whose results are always JSON");
      !wrong.empty())
    return wrong;
  return command.lines.output == "-" ? refuse(given, {"--resume"}, "expected a file as --output, got -") : "";
}

std::string checkInteractive(const RunCommand &command, const GivenOptions &given) {
  if (std::string wrong = refuse(given, {"--input", "--n", "--json", "--logprobs", "--no-echo"},
                                 "expected no --interactive, whose result is one text");
      !wrong.empty())
    return wrong;
  const PromptOptions &prompts = command.prompts;
  if (prompts.count() > 1)
    return "--interactive: expected one prompt at most, with which the text begins";
  if (llvm::any_of(prompts.given, [](const GivenPrompt &prompt) { return prompt.isStandardInput(); }))
    return "--interactive: expected a prompt from elsewhere than standard input, which has the lines";
  return "";
}

std::string check(const RunCommand &command, const GivenOptions &given) {
  const StringRef forEmulate = "expected --device emulate, which alone ";
  if (!StringRef(command.device).starts_with("emulate")) {
    if (std::string wrong = refuse(given, {"--schedule"}, forEmulate + "has an order of threads"); !wrong.empty())
      return wrong;
    if (command.check == "memory")
      if (std::string wrong = refuse(given, {"--check"}, "memory: " + forEmulate + "sees every access"); !wrong.empty())
        return wrong;
  }
  if (command.check == "reference")
    if (std::string wrong =
            refuse(given, {"--trace-kernels"}, "expected no --check reference, which works between the kernels");
        !wrong.empty())
      return wrong;
  if (areSeveral(command.device)) {
    if (std::string wrong = refuse(given, {"--interactive", "--draft", "--trace"}, forOneDevice(command.device));
        !wrong.empty())
      return wrong;
    if (command.check == "reference")
      return "--check: reference: " + forOneDevice(command.device);
  }
  if (command.interactive)
    return checkInteractive(command, given);
  if (!command.lines.input.empty())
    return checkLines(command, given);
  const std::vector<GivenPrompt> &prompts = command.prompts.given;
  if (llvm::none_of(prompts, [](const GivenPrompt &prompt) { return prompt.isText(); }))
    if (std::string wrong =
            refuse(given, {"--special"}, "expected --prompt, --prompt-file or --input, whose text it is about");
        !wrong.empty())
      return wrong;
  if (llvm::count_if(prompts, [](const GivenPrompt &prompt) { return prompt.isStandardInput(); }) > 1)
    return "standard input can be one prompt, got - more than once";
  return "";
}

std::string check(const TokenizeCommand &command, const GivenOptions &given) {
  if (command.texts.empty() && command.files.empty())
    return "no text: give --text or --file";
  if (llvm::count(command.files, "-") > 1)
    return "--file: standard input can be one text, got - more than once";
  return "";
}

std::string check(const EvalCommand &command, const GivenOptions &given) { return ""; }

/// The reason against options of measuring, for a device whose times mean nothing.
std::string onEmulated(StringRef does) {
  return ("--device emulate " + does + "; give --device cuda:N, or leave the option out").str();
}

std::string check(const BenchCommand &command, const GivenOptions &given) {
  if (command.model.empty())
    return "MODEL is required";
  if (command.what != "kernels")
    if (std::string wrong = refuse(given, {"--of"}, "expected --what kernels, got " + command.what); !wrong.empty())
      return wrong;
  if (command.what != "speculation")
    if (std::string wrong = refuse(given, {"--draft", "--draft-weights", "--acceptance", "--draft-tokens"},
                                   "expected --what speculation, got " + command.what);
        !wrong.empty())
      return wrong;
  if (areSeveral(command.device)) {
    if (std::string wrong = refuse(given, {"--trace"}, forOneDevice(command.device)); !wrong.empty())
      return wrong;
    if (command.what == "speculation")
      return "--what speculation: " + forOneDevice(command.device);
  }
  if (command.what == "speculation" && command.format == "csv")
    return "-o: expected md or json with --what speculation, got csv";
  const bool isEmulated = StringRef(command.device).starts_with("emulate");
  if (command.what == "speculation") {
    if (std::string wrong = refuse(given, {"--trace", "--runs", "--warm-up"}, "expected no --what speculation");
        !wrong.empty())
      return wrong;
    return isEmulated ? refuse(given, {"--samples"}, onEmulated("counts passes and does not time")) : "";
  }
  if (command.what == "generate")
    if (std::string wrong = refuse(given, {"--warm-up"}, "expected no --what generate"); !wrong.empty())
      return wrong;
  if (isEmulated)
    return refuse(given, {"--samples", "--runs", "--warm-up", "--weights", "--random-weights", "--trace"},
                  onEmulated("counts and runs nothing"));
  return "";
}

/// For commands that need more than one plan of the model.
std::string checkIsNoText(StringRef model) {
  return model.ends_with(".kiln")
             ? "MODEL: expected a .toml, a directory with config.json or a model in one file, got IR"
             : "";
}

std::string check(const LadderOptions &command, const GivenOptions &given) {
  if (std::string wrong = checkIsNoText(command.model); !wrong.empty())
    return wrong;
  return StringRef(command.device).starts_with("emulate")
             ? refuse(given, {"--samples"}, onEmulated("checks and does not time"))
             : "";
}

std::string check(const ReportCommand &command, const GivenOptions &given) {
  return command.output.empty() && command.picture.empty() ? "-o is required, or --picture" : "";
}

std::string check(const TuneOptions &command, const GivenOptions &given) { return checkIsNoText(command.model); }
std::string check(const ImportCommand &command, const GivenOptions &given) { return ""; }
std::string check(const ExportCommand &command, const GivenOptions &given) { return ""; }
std::string check(const CheckCommand &command, const GivenOptions &given) { return ""; }

std::string check(const CompareCommand &command, const GivenOptions &given) {
  bool isFileA = LogitsFile::isPath(command.a), isFileB = LogitsFile::isPath(command.b);
  if (isFileA && isFileB)
    return "expected a plan or a model as B, since A is a file of logits, got " + command.b;
  if (isFileA || isFileB)
    if (std::string wrong = refuse(given, {"--text", "--format", "--window"},
                                   "expected no file of logits, which has the tokens that it is about");
        !wrong.empty())
      return wrong;
  if (isFileA)
    return refuse(given, {"--device-a"}, "expected a plan or a model as A, got a file of logits");
  if (isFileB)
    return refuse(given, {"--dtype", "--strategy", "--matmul", "--decode", "--tuning", "--batch-invariant"},
                  "expected a model as B, which it is about, got a file of logits; give that as A, and the model as B");
  return command.text.empty() ? refuse(given, {"--format"}, "expected --text, whose file it is about") : "";
}

std::string check(std::monostate command, const GivenOptions &given) { return ""; }

} // namespace

std::string contradiction(const Command &command, const GivenOptions &given) {
  return std::visit([&](const auto &chosen) { return check(chosen, given); }, command);
}

} // namespace kiln
