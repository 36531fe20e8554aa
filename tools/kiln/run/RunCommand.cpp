#include "tools/kiln/Commands.h"
#include "tools/kiln/Input.h"
#include "tools/kiln/Tracing.h"
#include "tools/kiln/Version.h"
#include "tools/kiln/run/GenerationOutput.h"
#include "tools/kiln/run/RunSession.h"

#include "support/Diagnostic.h"
#include "support/process/Process.h"
#include "support/text/Json.h"

namespace kiln {

namespace {

using Prompts = std::vector<std::vector<int32_t>>;

/// The form in which a sequence is printed without --json: text, or ids if there is no vocabulary.
std::string shown(const Tokenizer *tokenizer, ArrayRef<int32_t> ids) {
  if (tokenizer) {
    Expected<std::string> text = tokenizer->decode(ids);
    if (text)
      return *text;
    llvm::consumeError(text.takeError()); // a model may know more ids than its vocabulary
  }
  std::string text;
  for (int32_t id : ids)
    text += std::to_string(id) + " ";
  return text;
}

/// Replaces empty prompts by the end-of-text token, since a model needs one token to begin with. Error: the model has
/// no such token.
Expected<Prompts> withBeginnings(Prompts prompts, const ModelSource &source) {
  std::optional<int32_t> begin = source.beginToken();
  for (auto [i, prompt] : llvm::enumerate(prompts)) {
    if (!prompt.empty())
      continue;
    if (!begin)
      return makeError("prompt " + Twine(i + 1) +
                       ": expected at least one token, got none, and the model has no end-of-text token to begin "
                       "with; give --prompt, --prompt-file or --tokens");
    prompt = {*begin};
  }
  return prompts;
}

/// Each prompt as often as it has samples.
Prompts repeated(const Prompts &prompts, int64_t samples) {
  Prompts all;
  for (const std::vector<int32_t> &prompt : prompts)
    all.insert(all.end(), static_cast<size_t>(samples), prompt);
  return all;
}

/// Writes sequences to standard output: a single one as it is generated, several one after the other, since their
/// tokens would be mixed.
class SequencePrinter {
public:
  /// `prompts` are printed as the user gave them.
  SequencePrinter(const RunCommand &command, const Tokenizer *tokenizer, const Prompts &prompts)
      : command(command), tokenizer(tokenizer), prompts(prompts) {}

  bool isStreaming() const { return !command.json && !command.sequence.logProbabilities && prompts.size() == 1; }

  void addToken(int32_t token, StringRef text) {
    echoPrompt(0);
    standardOutput() << (tokenizer ? text.str() : std::to_string(token) + " ");
    standardOutput().flush();
  }

  void finish(ArrayRef<Generation> generations) {
    for (const auto &[i, generation] : llvm::enumerate(generations)) {
      if (command.json) {
        standardOutput() << jsonText(toJson(generation, command.wantLogits, !command.draft.what.empty())) << '\n';
        continue;
      }
      if (command.sequence.logProbabilities) {
        standardOutput() << (i > 0 ? "\n" : "");
        printLogProbabilities(generation, tokenizer);
        continue;
      }
      echoPrompt(i);
      if (!isStreaming())
        standardOutput() << (tokenizer ? generation.text : shown(nullptr, generation.newTokens));
      standardOutput() << '\n';
    }
    standardOutput().flush();
  }

private:
  void echoPrompt(size_t i) {
    if (i < echoed)
      return;
    ++echoed;
    if (!command.noEcho)
      standardOutput() << shown(tokenizer, prompts[i]);
  }

  const RunCommand &command;
  const Tokenizer *tokenizer;
  const Prompts &prompts;
  size_t echoed = 0; ///< prompts printed so far
};

GenerateOptions generateOptions(const RunCommand &command, const RunSession &session, SequencePrinter &printer) {
  GenerateOptions options{session.sequenceOptions(command), session.jobOptions(command)};
  options.sampling = settled(options.sampling);
  if (printer.isStreaming())
    options.onToken = [&](size_t, int32_t token, StringRef text) { printer.addToken(token, text); };
  return options;
}

Error runPrompts(const RunCommand &command, RunSession &session) {
  Expected<Prompts> given = readPrompts(command.prompts, session.tokenizer(), session.source.filesPath);
  if (!given)
    return given.takeError();
  *given = repeated(*given, command.samples);
  Expected<Prompts> prompts = withBeginnings(*given, session.source);
  if (!prompts)
    return prompts.takeError();
  if (Error error = session.check(command, *prompts))
    return error;
  if (Error error = session.openDevices(command))
    return error;
  SequencePrinter printer(command, session.tokenizer(), *given);
  GenerateOptions options = generateOptions(command, session, printer);
  Expected<std::vector<Generation>> generations = traced(options.trace, TraceLane::Host, "generate", [&] {
    return generate(session.models(), session.tokenizer(), *prompts, options);
  });
  if (!generations)
    return generations.takeError();
  printer.finish(*generations);
  if (!command.quiet && !command.json)
    printSummary(*generations);
  if (!command.quiet && !command.json && options.draft) {
    SpeculationTotals totals;
    for (const Generation &generation : *generations)
      totals.add(generation);
    totals.print();
  }
  if (!command.quiet && command.check == "reference")
    llvm::errs() << session.engine().stepsChecked() << " steps agree with the reference executor\n";
  return Error::success();
}

} // namespace

static Error runOn(const RunCommand &command, RankGroup *group) {
  return withTrace(command.trace, "kiln run", [&](Trace *trace) {
    Expected<std::unique_ptr<RunSession>> session = RunSession::open(command, trace, group);
    if (!session)
      return session.takeError();
    if (group && group->rank() > 0)
      return followRank((*session)->source, (*session)->onDevice);
    if (command.interactive)
      return (*session)->finish(runInteractive(command, **session));
    return (*session)->finish(command.lines.input.empty() ? runPrompts(command, **session)
                                                          : runLines(command, **session));
  });
}

Error run(const RunCommand &command) {
  return runAsRank({programVersion(), command.model, command.pipeline.ranks, command.processes},
                   [&](RankGroup *group) { return runOn(command, group); });
}

} // namespace kiln
