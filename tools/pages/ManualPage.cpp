#include "tools/pages/Description.h"

#include "support/Version.h"

namespace kiln {

/// Text in roff: no character has a meaning of its own.
static std::string roff(StringRef text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-"; // a hyphen-minus, as shells take it
    else if (c == '\'')
      escaped += "\\(aq";
    else if (c == '`')
      escaped += "\\(ga";
    else
      escaped += c;
  }
  bool isRequest = StringRef(escaped).starts_with(".");
  return (isRequest ? "\\&" : "") + escaped;
}

static std::string bold(StringRef text) { return "\\fB" + roff(text) + "\\fR"; }
static std::string italic(StringRef text) { return "\\fI" + roff(text) + "\\fR"; }

/// The name of a command's page: kiln-bench-ladder.
static std::string pageName(StringRef name) {
  std::string page = name.str();
  std::replace(page.begin(), page.end(), ' ', '-');
  return page;
}

static void addSynopsis(raw_ostream &os, const DescribedCommand &command) {
  os << ".SH SYNOPSIS\n" << bold(command.name) << " [" << italic("OPTIONS") << "]";
  for (const DescribedOption &option : command.options)
    if (option.isPositional)
      os << (option.isRequired ? " " : " [") << italic(option.names.front()) << (option.isRequired ? "" : "]");
  if (!command.commands.empty())
    os << " " << italic("COMMAND");
  os << '\n';
}

static void addOption(raw_ostream &os, const DescribedOption &option) {
  auto shown = llvm::map_range(option.names, [](const std::string &name) { return bold(name); });
  os << ".TP\n" << llvm::join(shown, ", ");
  if (!option.value.empty() && !option.isPositional)
    os << " " << italic(option.words.empty() ? StringRef(option.value) : "WORD") << (option.isRepeated ? " ..." : "");
  os << '\n' << roff(option.help);
  std::vector<std::string> notes;
  if (!option.words.empty())
    notes.push_back("one of " + llvm::join(option.words, ", "));
  if (!option.defaultText.empty())
    notes.push_back("default: " + option.defaultText);
  if (option.isRequired && !option.isPositional)
    notes.emplace_back("required");
  if (!notes.empty())
    os << "\n(" << roff(llvm::join(notes, "; ")) << ")";
  os << '\n';
}

static void addOptions(raw_ostream &os, const DescribedCommand &command, StringRef heading, bool arePositional) {
  auto isWanted = [&](const DescribedOption &option) { return option.isPositional == arePositional; };
  if (llvm::none_of(command.options, isWanted))
    return;
  os << ".SH " << heading << '\n';
  for (const DescribedOption &option : command.options)
    if (isWanted(option))
      addOption(os, option);
}

/// The command above, and those below.
static void addReferences(raw_ostream &os, const DescribedCommand &command) {
  std::vector<std::string> pages;
  StringRef parent = StringRef(command.name).rsplit(' ').first;
  if (parent != command.name)
    pages.push_back(pageName(parent));
  for (const DescribedCommand &sub : command.commands)
    pages.push_back(pageName(sub.name));
  if (pages.empty())
    return;
  os << ".SH SEE ALSO\n";
  auto shown = llvm::map_range(pages, [](const std::string &page) { return bold(page) + "(1)"; });
  os << llvm::join(shown, ",\n") << '\n';
}

std::string manualPage(const DescribedCommand &command) {
  std::string page, name = pageName(command.name);
  llvm::raw_string_ostream os(page);
  os << ".TH " << roff(StringRef(name).upper()) << " 1 \"\" \"Kiln " << compilerVersion << "\" \"Kiln\"\n";
  os << ".SH NAME\n" << roff(name) << " \\- " << roff(command.summary) << '\n';
  addSynopsis(os, command);
  addOptions(os, command, "ARGUMENTS", true);
  addOptions(os, command, "OPTIONS", false);
  if (!command.commands.empty())
    os << ".SH COMMANDS\n";
  for (const DescribedCommand &sub : command.commands)
    os << ".TP\n" << bold(sub.word()) << '\n' << roff(sub.summary) << '\n';
  addReferences(os, command);
  return page;
}

} // namespace kiln
