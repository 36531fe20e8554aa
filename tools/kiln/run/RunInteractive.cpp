#include "tools/kiln/Input.h"
#include "tools/kiln/run/LineInput.h"
#include "tools/kiln/run/RunSession.h"

#include "runtime/generation/ContinuedModel.h"
#include "support/Diagnostic.h"
#include "support/process/Process.h"

namespace kiln {

namespace {

constexpr StringRef help = "Each line is continued, with all lines and answers before it as one text.\n"
                           "An empty line continues the text as it is.\n"
                           "/reset  forgets the text\n"
                           "/help   shows this\n"
                           "Ctrl-C ends an answer, Ctrl-D the program.\n";

/// A text that the user and the model write in turns. It is what a terminal shows: each answer ends with a line break.
class Conversation {
public:
  Conversation(LanguageModel &model, const Tokenizer &tokenizer, std::optional<int32_t> begin,
               const GenerateOptions &options)
      : model(model), tokenizer(tokenizer), begin(begin), options(options) {}

  void reset() { text.clear(), endsLine = true; }

  /// Continues the text with what the user has written, and prints the answer as it comes. If the line is refused, the
  /// text stays as it was. Error: as of `generate`.
  Error answer(StringRef line, bool isSpecial);
  Error answer(ArrayRef<int32_t> tokens);

private:
  void keep(const Generation &answer);

  LanguageModel &model;
  const Tokenizer &tokenizer;
  std::optional<int32_t> begin;
  GenerateOptions options;
  std::vector<int32_t> text; ///< its tokens
  bool endsLine = true;      ///< whether what comes next needs no line break in front of it
};

} // namespace

Error Conversation::answer(StringRef line, bool isSpecial) {
  return answer(tokenizer.encode((endsLine || line.empty() ? "" : "\n") + line.str(), isSpecial));
}

Error Conversation::answer(ArrayRef<int32_t> tokens) {
  std::vector<int32_t> prompt = text;
  llvm::append_range(prompt, tokens);
  if (prompt.empty() && begin)
    prompt = {*begin};
  // As the generator does when a context slides while it generates.
  const int64_t context = model.contextLength(), kept = std::max<int64_t>(context / 2, 1);
  if (options.overflow == OverflowPolicy::Slide && static_cast<int64_t>(prompt.size()) > context &&
      static_cast<int64_t>(tokens.size()) <= context)
    prompt.erase(prompt.begin(), prompt.end() - std::max<int64_t>(kept, static_cast<int64_t>(tokens.size())));
  if (std::string wrong = promptProblem(prompt, options, model.vocabSize(), context); !wrong.empty()) {
    llvm::errs() << "the text with this line: " << wrong << "; or enter /reset\n";
    return Error::success();
  }
  auto generations = traced(options.trace, TraceLane::Host, "generate",
                            [&] { return generate(model, &tokenizer, {prompt}, options); });
  if (!generations)
    return generations.takeError();
  text = std::move(prompt);
  keep(generations->front());
  return Error::success();
}

/// Adds an answer to the text as it was printed, without the token that ended it or what followed a stop string.
void Conversation::keep(const Generation &answer) {
  Expected<std::string> whole = tokenizer.decode(answer.newTokens);
  bool isWhole = whole && *whole == answer.text;
  llvm::consumeError(whole.takeError()); // every id was known when it came
  llvm::append_range(text, isWhole ? answer.newTokens : tokenizer.encode(answer.text, /*special=*/false));
  endsLine = StringRef(answer.text).ends_with("\n");
  if (!endsLine)
    standardOutput() << '\n';
  standardOutput().flush();
}

/// Lines until the input ends, or until two interrupts come one after the other.
static Error converse(Conversation &conversation, LineInput &input, Interrupts &interrupts, bool isSpecial) {
  bool wasInterrupted = false;
  std::string line;
  for (;;) {
    Expected<LineInput::Event> event = input.read(line);
    if (!event)
      return event.takeError();
    if (*event == LineInput::Event::End || (*event == LineInput::Event::Interrupt && wasInterrupted))
      return Error::success();
    wasInterrupted = *event != LineInput::Event::Line;
    if (wasInterrupted) {
      llvm::errs() << "Ctrl-C once more, or Ctrl-D, ends the program\n";
      continue;
    }
    interrupts.take(); // one that came before the answer began
    if (line == "/reset")
      conversation.reset();
    else if (line == "/help")
      llvm::errs() << help;
    else if (Error error = conversation.answer(line, isSpecial))
      return error;
  }
}

/// The tokens of --prompt or its like, with which the text begins; none without it. Error: what the model does not
/// take.
static Expected<std::vector<int32_t>> readBeginning(const RunCommand &command, const RunSession &session) {
  auto prompts = readPrompts(command.prompts, session.tokenizer(), session.source.filesPath);
  if (!prompts)
    return prompts.takeError();
  const bool isEmpty = prompts->front().empty();
  if (Error error = session.check(command, isEmpty ? ArrayRef<std::vector<int32_t>>() : ArrayRef(*prompts)))
    return error;
  return prompts->front();
}

/// Continues the beginning, if there is one, as the first line.
static Error answerPrompt(ArrayRef<int32_t> prompt, const RunSession &session, Conversation &conversation) {
  if (prompt.empty())
    return Error::success();
  Expected<std::string> text = session.tokenizer()->decode(prompt);
  if (!text)
    return text.takeError();
  standardOutput() << *text;
  return conversation.answer(prompt);
}

Error runInteractive(const RunCommand &command, RunSession &session) {
  if (!session.tokenizer())
    return makeFileError(session.source.filesPath, "--interactive: expected a vocabulary, to read lines, got none");
  Expected<std::vector<int32_t>> beginning = readBeginning(command, session);
  if (!beginning)
    return beginning.takeError();
  if (Error error = session.openDevices(command))
    return error;
  Expected<std::unique_ptr<Interrupts>> interrupts = Interrupts::create();
  if (!interrupts)
    return interrupts.takeError();
  GenerateOptions options{session.sequenceOptions(command), session.jobOptions(command)};
  options.sampling = settled(options.sampling);
  options.onToken = [](size_t, int32_t, StringRef text) {
    standardOutput() << text;
    standardOutput().flush();
  };
  options.isCancelled = [&] { return (*interrupts)->take(); };
  // A GPU evaluates a whole conversation in the time of a few tokens, and chooses tokens itself if the model is its
  // own.
  LanguageModel &model = session.engine().model();
  ContinuedModel continued(model);
  bool keepsCache = !options.draft && !StringRef(session.onDevice.device).starts_with("cuda");
  Conversation conversation(keepsCache ? continued : model, *session.tokenizer(), session.source.beginToken(), options);
  if (Error error = answerPrompt(*beginning, session, conversation))
    return error;
  std::unique_ptr<LineInput> input = LineInput::open(**interrupts);
  return converse(conversation, *input, **interrupts, command.prompts.special);
}

} // namespace kiln
