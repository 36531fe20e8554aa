//===- Description.h - what a command line takes, for pages about it ----------===//
#pragma once

#include "support/ADT.h"

namespace CLI { // NOLINT(readability-identifier-naming): CLI11's name
class App;
} // namespace CLI

namespace kiln {

struct DescribedOption {
  std::vector<std::string> names; ///< `-h`, `--help`; of an argument without a name: MODEL
  bool isPositional = false;
  std::string value;              ///< what its value is: TEXT; empty: it takes none
  std::vector<std::string> words; ///< values that it takes; empty: any
  std::string help;
  std::string defaultText; ///< empty: none
  bool isRequired = false;
  bool isRepeated = false; ///< it may be given several times

  /// Whether its value may be a file.
  bool takesFile() const { return value == "TEXT" && words.empty(); }
};

struct DescribedCommand {
  std::string name; ///< with the program's: kiln bench ladder
  std::string summary;
  std::vector<DescribedOption> options;
  std::vector<DescribedCommand> commands;

  /// Whether files may be among its arguments.
  bool takesFiles() const {
    return llvm::any_of(options, [](const DescribedOption &option) { return option.isPositional; });
  }

  /// The last word of the name.
  StringRef word() const {
    size_t space = StringRef(name).rfind(' ');
    return space == StringRef::npos ? StringRef(name) : StringRef(name).drop_front(space + 1);
  }
};

/// The program that CLI11 parses, with its commands.
DescribedCommand describe(const CLI::App &app);

/// A manual page in roff for a command, without its subcommands.
std::string manualPage(const DescribedCommand &command);

/// Scripts that complete a program's arguments.
std::string bashCompletion(const DescribedCommand &program);
std::string zshCompletion(const DescribedCommand &program);
std::string fishCompletion(const DescribedCommand &program);

} // namespace kiln
