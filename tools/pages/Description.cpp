// CLI11 is slow to compile: of the files here, only this one and Main.cpp include it.
#include "tools/pages/Description.h"

#include <CLI/CLI.hpp>

namespace kiln {

/// The words of an option's validators, which tools/kiln/options/SharedOptions.h puts into their names.
static std::vector<std::string> wordsOf(CLI::Option &option) {
  std::vector<std::string> words;
  try {
    for (int i = 0;; ++i) {
      SmallVector<StringRef> parts;
      StringRef(option.get_validator(i)->get_name()).split(parts, '|', -1, /*KeepEmpty=*/false);
      words.insert(words.end(), parts.begin(), parts.end());
    }
  } catch (const CLI::OptionNotFound &) { // there are no more validators
  }
  return words;
}

static DescribedOption describe(const CLI::Option &option) {
  DescribedOption described;
  described.isPositional = option.get_positional();
  if (described.isPositional)
    described.names = {option.get_name()};
  for (const std::string &name : option.get_snames())
    described.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    described.names.push_back("--" + name);
  if (option.get_type_size() != 0)
    described.value = option.get_type_name();
  described.words = wordsOf(const_cast<CLI::Option &>(option)); // reads only; CLI11 has no other way to validators
  described.help = option.get_description();
  described.defaultText = option.get_default_str();
  described.isRequired = option.get_required();
  described.isRepeated = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll && !described.isPositional;
  return described;
}

static DescribedCommand describe(const CLI::App &app, const std::string &name) {
  DescribedCommand command{name, app.get_description(), {}, {}};
  for (const CLI::Option *option : app.get_options())
    command.options.push_back(describe(*option));
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    command.commands.push_back(describe(*sub, name + " " + sub->get_name()));
  return command;
}

DescribedCommand describe(const CLI::App &app) { return describe(app, app.get_name()); }

} // namespace kiln
