// Parses arguments into a command. CLI11 is slow to compile and throws: only this file and those with options include
// it.
#include "tools/kiln/CommandLine.h"

#include "tools/kiln/Version.h"
#include "tools/kiln/options/OptionRules.h"
#include "tools/kiln/options/Options.h"
#include "tools/usage/UsageMessages.h"

#include "support/text/Nearest.h"

#include <CLI/CLI.hpp>

namespace kiln {

namespace {

/// Reports unknown commands: CLI11 would only say that a command is missing.
void checkCommandName(const CLI::App &app, ArrayRef<char *> arguments) {
  std::vector<std::string> names;
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(sub->get_name());
  const std::string expected = "expected one of " + llvm::join(names, ", ");
  if (arguments.empty())
    throw usageError("no command: " + expected);
  StringRef name = arguments.front();
  if (!name.starts_with("-") && !llvm::is_contained(names, name))
    throw usageError("unknown command '" + name.str() + "', " + expected + didYouMean(name, names));
}

GivenOptions givenOptions(const CLI::App &sub) {
  GivenOptions given;
  for (const CLI::Option *option : sub.get_options())
    if (option->count() > 0 && !option->get_positional())
      given.insert(option->get_name());
  return given;
}

/// Refuses options of `bench` in front of `ladder`: `bench ladder` has options of its own and would ignore them.
void checkLadder(const CLI::App &ladder) {
  for (const CLI::Option *option : ladder.get_parent()->get_options())
    if (option->count() > 0)
      throw usageError(option->get_name() + ": given to kiln bench, which does nothing for its command ladder; give " +
                       "ladder's own options, and MODEL, behind `ladder`");
}

/// Error: CLI::ParseError.
void parse(CLI::App &app, ArrayRef<char *> arguments, Command &command) {
  Commands commands;
  addCommands(app, commands);
  checkCommandName(app, arguments);
  parseArguments(app, arguments);
  const CLI::App &sub = *innermostCommand(&app);
  if (sub.get_name() == "ladder")
    checkLadder(sub);
  command = chosenCommand(sub.get_name(), std::move(commands));
  if (std::string wrong = contradiction(command, givenOptions(sub)); !wrong.empty())
    throw usageError(wrong);
}

} // namespace

void setUp(CLI::App &app) {
  app.name("kiln");
  app.description("Kiln compiles GPT-2 into fused CUDA");
  app.set_version_flag("--version", versionText);
  app.require_subcommand(1);
  app.failure_message(usageMessage);
}

std::optional<int> parseCommandLine(int argc, char **argv, Command &command) {
  CLI::App app;
  setUp(app);
  try {
    parse(app, ArrayRef(argv, argc).drop_front(std::min(argc, 1)), command);
  } catch (const CLI::ParseError &error) {
    return finishUsage(app, error);
  }
  return std::nullopt;
}

} // namespace kiln
