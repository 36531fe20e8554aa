#include "tools/kiln/run/LineInput.h"

#include "support/Diagnostic.h"

#include <array>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace kiln {

static constexpr const char *shownPrompt = "> ";

namespace {

/// Lines as they come. A terminal's driver has its own keys for the line that is being entered.
class PlainInput : public LineInput {
public:
  explicit PlainInput(Interrupts &interrupts) : interrupts(interrupts), isTerminal(isatty(STDIN_FILENO) != 0) {}

  Expected<Event> read(std::string &line) override;

private:
  Interrupts &interrupts;
  bool isTerminal, isEnded = false;
  std::string ahead; ///< read, but not yet returned
};

/// libedit's functions with the names of GNU readline's.
struct EditLibrary {
  using OnLine = void (*)(char *line);
  void (*installHandler)(const char *prompt, OnLine onLine) = nullptr;
  void (*readCharacter)() = nullptr;
  void (*removeHandler)() = nullptr;
  int (*addHistory)(const char *line) = nullptr;

  /// Null where there is none.
  static const EditLibrary *load();
};

/// Lines that libedit's keys edit. It is given one character at a time, so that Ctrl-C is noticed while it waits.
class EditedInput : public LineInput {
public:
  EditedInput(Interrupts &interrupts, const EditLibrary &library) : interrupts(interrupts), library(library) {}

  Expected<Event> read(std::string &line) override;

private:
  Interrupts &interrupts;
  const EditLibrary &library;
};

} // namespace

//===----------------------------------------------------------------------===//
// Plain
//===----------------------------------------------------------------------===//

Expected<LineInput::Event> PlainInput::read(std::string &line) {
  line.clear();
  if (isTerminal)
    llvm::errs() << shownPrompt;
  for (size_t end; (end = ahead.find('\n')) == std::string::npos;) {
    if (isEnded) {
      line = std::exchange(ahead, "");
      return line.empty() ? Event::End : Event::Line;
    }
    if (interrupts.awaitInput() == Interrupts::Event::Interrupt)
      return std::exchange(ahead, "").empty() ? Event::Interrupt : Event::Dropped;
    std::array<char, 4096> buffer;
    ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno != EINTR && errno != EAGAIN)
      return makeError("standard input: cannot read: " + std::error_code(errno, std::generic_category()).message());
    isEnded = count == 0;
    ahead.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  size_t end = ahead.find('\n');
  line = ahead.substr(0, end);
  ahead.erase(0, end + 1);
  return Event::Line;
}

//===----------------------------------------------------------------------===//
// libedit
//===----------------------------------------------------------------------===//

const EditLibrary *EditLibrary::load() {
  static EditLibrary library;
  void *file = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!file)
    return nullptr;
  auto bind = [&](const char *name, auto &symbol) {
    symbol = reinterpret_cast<std::remove_reference_t<decltype(symbol)>>(dlsym(file, name));
    return symbol != nullptr;
  };
  int *catchesSignals = nullptr;
  FILE **output = nullptr;
  bool isComplete = bind("rl_callback_handler_install", library.installHandler) &&
                    bind("rl_callback_read_char", library.readCharacter) &&
                    bind("rl_callback_handler_remove", library.removeHandler) &&
                    bind("add_history", library.addHistory) && bind("rl_catch_signals", catchesSignals) &&
                    bind("rl_outstream", output);
  if (!isComplete)
    return nullptr;
  *catchesSignals = 0;
  *output = stderr; // standard output is for answers
  return &library;
}

/// What libedit has called back with: it takes no context.
static std::optional<std::string> enteredLine;
static bool isEntered;

Expected<LineInput::Event> EditedInput::read(std::string &line) {
  line.clear();
  isEntered = false;
  library.installHandler(shownPrompt, [](char *text) {
    isEntered = true;
    enteredLine = text ? std::optional<std::string>(text) : std::nullopt;
    std::free(text);
  });
  auto waited = Interrupts::Event::Input;
  bool isBegun = false;
  while (!isEntered && (waited = interrupts.awaitInput()) == Interrupts::Event::Input) {
    isBegun = true;
    library.readCharacter();
  }
  library.removeHandler();
  if (!isEntered || !enteredLine)
    llvm::errs() << '\n';
  if (waited == Interrupts::Event::Interrupt)
    return isBegun ? Event::Dropped : Event::Interrupt;
  if (!isEntered || !enteredLine)
    return Event::End;
  line = *enteredLine;
  if (!line.empty())
    library.addHistory(line.c_str());
  return Event::Line;
}

std::unique_ptr<LineInput> LineInput::open(Interrupts &interrupts) {
  const char *terminal = std::getenv("TERM");
  bool canEdit = isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && terminal && StringRef(terminal) != "dumb";
  if (canEdit) {
    std::setlocale(LC_CTYPE, ""); // libedit reads characters, not bytes
    if (const EditLibrary *library = EditLibrary::load())
      return std::make_unique<EditedInput>(interrupts, *library);
  }
  return std::make_unique<PlainInput>(interrupts);
}

} // namespace kiln
