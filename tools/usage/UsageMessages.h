//===- UsageMessages.h - what programs say of a wrong command line ----------===//
//
// The same words in every program. It does not include CLI11, which is slow to compile; whoever calls it does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace CLI { // NOLINT(readability-identifier-naming): CLI11's name
class App;
class Error;
class ParseError;
} // namespace CLI

namespace kiln {

/// Rewrites CLI11's messages in the style of this project; for App::failure_message.
std::string usageMessage(const CLI::App *, const CLI::Error &error);

/// An error that usageMessage prints as `error: MESSAGE`.
CLI::ParseError usageError(const std::string &message);

/// Prints what CLI11 has thrown: an error, or the help or version that was asked for. Returns the exit code: 2 for a
/// wrong command line, 1 if standard output cannot be written.
int finishUsage(const CLI::App &app, const CLI::Error &thrown);

/// The innermost command that was chosen; the program itself if it has none.
const CLI::App *innermostCommand(const CLI::App *app);

/// Parses a program's arguments, without its name. Error: CLI::ParseError; of arguments that the command does not take,
/// one that suggests the option that may be meant.
void parseArguments(CLI::App &app, ArrayRef<char *> arguments);

} // namespace kiln
