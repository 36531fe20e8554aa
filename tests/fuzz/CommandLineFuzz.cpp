// The arguments of kiln, one per line; nothing is run. A command line is accepted, or ends the program with 0 or 2.
// Accepted values of lists and numbers are in their ranges.
#include "Fuzz.h"

#include "strategies/Strategy.h"
#include "tools/kiln/CommandLine.h"
#include "tools/kiln/Input.h"

#include <cmath>
#include <cstdio>
#include <iostream>

using namespace kiln;

static void requireCounts(ArrayRef<int64_t> values, int64_t least) {
  require(!values.empty() && llvm::all_of(values, [=](int64_t value) { return value >= least; }),
          "a count that is none");
}

static void check(const std::monostate &) { require(false, "a command line without a command"); }
static void check(const CompileCommand &command) { requireCounts(command.maxBatch, 1); }
static void check(const DumpCommand &) {}
static void check(const RunCommand &command) {
  const SamplingParams &sampling = command.sequence.sampling;
  require(std::isfinite(sampling.temperature) && sampling.temperature >= 0, "a temperature that is none");
  require(sampling.topP > 0 && sampling.topP <= 1, "a probability that is none");
  require(sampling.minP >= 0 && sampling.minP <= 1, "a share that is none");
  requireCounts(command.sequence.maxNewTokens, 0);
  requireCounts({command.draft.tokens.value_or(1), command.samples, command.lines.batch.value_or(1)}, 1);
  for (const GivenPrompt &prompt : command.prompts.given)
    if (prompt.isText())
      continue;
    else if (Expected<std::vector<int32_t>> ids = parseTokens(prompt.value); ids)
      require(llvm::all_of(*ids, [](int32_t id) { return id >= 0; }), "a token that is none");
    else
      llvm::consumeError(ids.takeError());
}
static void check(const TokenizeCommand &) {}
static void check(const EvalCommand &command) {
  requireCounts({command.window, command.stride}, 0);
  requireCounts(command.batch.value_or(1), 1);
}
static void check(const BenchCommand &command) {
  requireCounts(command.batches, 1);
  requireCounts(command.lengths, 0);
}
static void check(const ReportCommand &) {}
static void check(const TuneOptions &command) {
  requireCounts(command.batches, 1);
  requireCounts(command.lengths, 1);
  require(command.mostOfBest > 0, "a ratio that is none");
}
static void check(const LadderOptions &) {}
static void check(const ImportCommand &) {}
static void check(const ExportCommand &command) {
  require(command.format == "gguf" || command.format == "llmc", "a format that is none");
}
static void check(const CheckCommand &command) { require(command.tolerance > 0, "a tolerance that is none"); }
static void check(const CompareCommand &command) {
  requireCounts({command.window, command.maxTokens}, 0);
  require(command.mostDivergence.value_or(0) >= 0, "a divergence that is none");
  double share = command.leastAgreement.value_or(0);
  require(share >= 0 && share <= 1, "a share that is none");
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  // Printing help and errors would take most of the time.
  std::cout.rdbuf(nullptr);
  std::cerr.rdbuf(nullptr);
  require(std::freopen("/dev/null", "w", stdout), "cannot open /dev/null");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::string> texts = {"kiln"};
  StringRef rest = inputText(data, size);
  while (!rest.empty()) {
    auto [line, following] = rest.split('\n');
    texts.push_back(line.take_until([](char c) { return c == 0; }).str());
    rest = following;
  }
  std::vector<char *> arguments;
  for (std::string &text : texts)
    arguments.push_back(text.data());
  arguments.push_back(nullptr);
  Command command;
  std::optional<int> exitCode = parseCommandLine(static_cast<int>(texts.size()), arguments.data(), command);
  require(!exitCode || *exitCode == 0 || *exitCode == 2, "an exit code that is none");
  if (!exitCode)
    std::visit([](const auto &chosen) { check(chosen); }, command);
  return 0;
}
