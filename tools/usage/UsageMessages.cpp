#include "tools/usage/UsageMessages.h"

#include "support/process/Process.h"
#include "support/text/Nearest.h"
#include "support/text/Printable.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace kiln {

std::string usageMessage(const CLI::App *, const CLI::Error &error) {
  std::string message = error.what();
  bool isWord = message.size() > 1 && !llvm::isUpper(message[1]);
  if (isWord)
    message[0] = llvm::toLower(message[0]);
  return "error: " + printable(message) + "\nRun with --help for more information.\n";
}

CLI::ParseError usageError(const std::string &message) { return {message, 2}; }

int finishUsage(const CLI::App &app, const CLI::Error &thrown) {
  std::ostringstream out, errors;
  const int code = app.exit(thrown, out, errors);
  standardOutput() << out.str();
  llvm::errs() << errors.str();
  return finishProcess(Error::success(), code == 0 ? 0 : 2);
}

const CLI::App *innermostCommand(const CLI::App *app) {
  while (!app->get_subcommands().empty())
    app = app->get_subcommands().front();
  return app;
}

/// The arguments in reverse order, as CLI11 expects them. `--text=` is split here: CLI11 would take the next argument
/// as its value.
static std::vector<std::string> reversed(ArrayRef<char *> arguments) {
  std::vector<std::string> all;
  for (StringRef argument : llvm::reverse(arguments)) {
    bool isEmptyValue = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (isEmptyValue)
      all.push_back("");
    all.push_back(argument.drop_back(isEmptyValue ? 1 : 0).str());
  }
  return all;
}

/// The error for arguments that the command did not take: an unknown option if there is one, else the first surplus
/// argument.
static CLI::ParseError extrasError(const CLI::App &app, ArrayRef<char *> arguments) {
  const CLI::App *command = innermostCommand(&app);
  std::vector<std::string> extras = app.remaining(/*recurse=*/true), options;
  auto isExtra = [&](StringRef argument) { return llvm::is_contained(extras, argument); };
  for (const CLI::Option *option : command->get_options())
    for (const std::string &name : option->get_lnames())
      options.push_back("--" + name);
  for (StringRef argument : arguments)
    if (isExtra(argument) && argument.starts_with("-") && argument.size() > 1) {
      StringRef name = argument.split('=').first;
      return usageError("unknown option '" + name.str() + "'" + didYouMean(name, options));
    }
  auto first = llvm::find_if(arguments, isExtra);
  return usageError("unexpected argument '" + (first == arguments.end() ? extras.front() : std::string(*first)) + "'");
}

void parseArguments(CLI::App &app, ArrayRef<char *> arguments) {
  try {
    app.parse(reversed(arguments));
  } catch (const CLI::ExtrasError &) {
    throw extrasError(app, arguments);
  }
}

} // namespace kiln
