//===- CommandLine.h - parsing the command line ---------------------------===//
#pragma once

#include "tools/ladder/LadderOptions.h"
#include "tools/session/WritePlan.h"
#include "tools/tune/TuneOptions.h"

#include "runtime/generation/Generator.h"
#include "runtime/text/EvalData.h"

namespace kiln {

/// A prompt of the command line.
struct GivenPrompt {
  enum class Kind {
    Text,  ///< --prompt
    File,  ///< --prompt-file; - is standard input
    Tokens ///< --tokens, a list of ids; - is standard input
  };
  Kind kind;
  std::string value;

  bool isText() const { return kind != Kind::Tokens; }
  bool isStandardInput() const { return kind != Kind::Text && value == "-"; }
};

/// Where prompts come from.
struct PromptOptions {
  std::vector<GivenPrompt> given; ///< in the order of the command line, which numbers the sequences
  bool special = false;           ///< special tokens of texts and files become their ids

  /// At least one: without prompts there is an empty one.
  int64_t count() const { return static_cast<int64_t>(std::max<size_t>(1, given.size())); }
};

/// The stage that stageName gives this name.
std::optional<Stage> parseStage(StringRef name);

struct CompileCommand : PlanRequest {
  Stage stage = Stage::Cubin;
  std::string output;
  std::string dumpDirectory;
  bool noCache = false;
  bool quiet = false;
};

struct DumpCommand {
  std::string plan;
  std::string kernel;
  std::string what;
  std::string output;
};

/// Speculation.
struct DraftOptions {
  std::string what;              ///< --draft: ngram, a plan or a model; empty: none
  std::string weights;           ///< --draft-weights
  std::optional<int64_t> tokens; ///< --draft-tokens K
  bool isAuto = false;           ///< --draft-tokens auto
};

/// Prompts from a file of JSON lines.
struct LinesOptions {
  std::string input;        ///< --input; - is standard input; empty: prompts are on the command line
  std::string output = "-"; ///< --output; - is standard output
  bool resume = false;
  std::optional<int64_t> batch; ///< sequences side by side
};

struct RunCommand {
  std::string model;
  WeightOptions weights;
  PromptOptions prompts;
  PipelineChoices pipeline;
  bool processes = false; ///< each rank is a process
  LinesOptions lines;
  SequenceOptions sequence;
  int64_t samples = 1; ///< of each prompt
  DraftOptions draft;
  std::optional<std::string> overflow; ///< not given: error; with --interactive slide
  bool interactive = false;
  std::string device = "auto";
  std::string check = "memory";
  std::string schedule = "in-order";
  std::string kernelsFrom;
  std::string trace; ///< a file, or empty
  bool traceKernels = false;
  bool wantLogits = false;
  bool json = false;
  bool quiet = false;
  bool noEcho = false;
};

struct TokenizeCommand {
  std::string model;
  std::vector<std::string> texts;
  std::vector<std::string> files;
  bool special = false;
  bool json = false;
};

struct EvalCommand {
  std::string model;
  WeightOptions weights;
  PipelineChoices pipeline;
  bool processes = false; ///< each rank is a process
  std::string text;
  std::optional<EvalForm> form; ///< none: recognised
  int64_t window = 0, stride = 0;
  std::optional<int64_t> batch; ///< windows side by side
  std::string device = "auto";
  bool json = false;
  bool quiet = false;
};

struct BenchCommand {
  std::string model;
  WeightOptions weights;
  PipelineChoices pipeline;
  std::string what = "decode";
  std::string of = "decode"; ///< the function whose kernels are timed
  std::vector<int64_t> batches = {1};
  std::vector<int64_t> lengths = {64};
  BenchmarkOptions options;
  DraftOptions draft;                                     ///< of --what speculation
  std::vector<double> acceptances = {0.5, 0.7, 0.8, 0.9}; ///< likewise: the rates of right guesses
  std::vector<std::string> draftTokens = {"4"};           ///< likewise: numbers of guesses, or auto
  std::string device = "auto";
  std::string format = "md";
  std::string trace; ///< a file, or empty
};

struct ReportCommand {
  std::string plan, secondPlan;         ///< the second may be empty
  std::string profile, secondProfile;   ///< files, or empty
  std::optional<int64_t> batch, length; ///< of the calls that are counted
  std::string output, picture;          ///< one of them may be empty
};

struct ImportCommand {
  std::string file;
  std::string output; ///< empty: only show
};

struct ExportCommand {
  std::string model;
  std::string format; ///< gguf or llmc
  std::string output;
};

struct CheckCommand {
  std::string model;
  WeightOptions weights;
  PipelineChoices pipeline;
  std::string debugState;
  double tolerance = 0.01; ///< of a logit and of the loss; llm.c's own
  std::string device = "auto";
  bool json = false;
  bool quiet = false;
};

struct CompareCommand {
  std::string a, b;
  WeightOptions weights;    ///< of both
  PipelineChoices pipeline; ///< of b
  std::string text;         ///< empty: A writes
  std::optional<EvalForm> form;
  int64_t window = 0;    ///< 0: the smaller context
  int64_t maxTokens = 0; ///< of the text; 0: all
  std::string device = "auto", deviceA;
  std::optional<double> mostDivergence, leastAgreement;
  bool json = false;
  bool quiet = false;
};

using Command =
    std::variant<std::monostate, CompileCommand, DumpCommand, RunCommand, TokenizeCommand, EvalCommand, BenchCommand,
                 ReportCommand, TuneOptions, LadderOptions, ImportCommand, ExportCommand, CheckCommand, CompareCommand>;

/// Fills `command`, or returns the exit code to leave with: 0 after --help or --version, 2 after a usage error, both
/// printed.
std::optional<int> parseCommandLine(int argc, char **argv, Command &command);

} // namespace kiln
