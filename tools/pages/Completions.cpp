#include "tools/pages/Description.h"

namespace kiln {

namespace {

/// A word of a shell in single quotes.
std::string quoted(StringRef text) {
  std::string escaped;
  for (char c : text)
    escaped += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + escaped + "'";
}

/// The same in fish, which knows escapes within the quotes.
std::string fishQuoted(StringRef text) {
  std::string escaped;
  for (char c : text)
    escaped += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return "'" + escaped + "'";
}

/// The name of a shell function: _kiln_opt.
std::string functionName(const DescribedCommand &program) {
  std::string name = "_" + program.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// A command and all below it, with the words behind the program's name: `bench ladder`.
void visit(const DescribedCommand &command, const std::string &words,
           function_ref<void(const DescribedCommand &, const std::string &words)> call) {
  call(command, words);
  for (const DescribedCommand &sub : command.commands)
    visit(sub, words + (words.empty() ? "" : " ") + sub.word().str(), call);
}

/// Everything that may be the next word, but for values: options and commands.
std::string nextWords(const DescribedCommand &command) {
  std::vector<std::string> words;
  for (const DescribedOption &option : command.options)
    if (!option.isPositional)
      words.insert(words.end(), option.names.begin(), option.names.end());
  for (const DescribedCommand &sub : command.commands)
    words.push_back(sub.word().str());
  return llvm::join(words, " ");
}

/// The patterns of a case of the options' names, `'run --device'`, behind a command's words.
std::string patterns(const DescribedOption &option, const std::string &words) {
  auto shown = llvm::map_range(option.names, [&](const std::string &name) { return quoted(words + " " + name); });
  return llvm::join(shown, "|");
}

} // namespace

//===----------------------------------------------------------------------===//
// bash
//===----------------------------------------------------------------------===//

/// A case for each option with a value.
static void addBashValues(raw_ostream &os, const DescribedCommand &command, const std::string &words) {
  for (const DescribedOption &option : command.options) {
    if (option.isPositional || option.value.empty())
      continue;
    os << "    " << patterns(option, words) << ")\n";
    if (!option.words.empty())
      os << "      mapfile -t COMPREPLY < <(compgen -W " << quoted(llvm::join(option.words, " "))
         << " -- \"$current\")\n";
    else if (option.takesFile())
      os << "      mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n";
    os << "      return ;;\n";
  }
}

std::string bashCompletion(const DescribedCommand &program) {
  std::string text, function = functionName(program);
  llvm::raw_string_ostream os(text);
  os << "# bash completion of " << program.name << ", made from its table of options.\n"
     << function << "() {\n"
     << "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= next= files= word\n"
     << "  COMPREPLY=()\n"
     << "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$command $word\" in\n";
  visit(program, "", [&](const DescribedCommand &command, const std::string &words) {
    for (const DescribedCommand &sub : command.commands)
      os << "      " << quoted(words + " " + sub.word().str())
         << ") command=" << quoted(words + (words.empty() ? "" : " ") + sub.word().str()) << " ;;\n";
  });
  os << "    esac\n  done\n  case \"$command $previous\" in\n";
  visit(program, "",
        [&](const DescribedCommand &command, const std::string &words) { addBashValues(os, command, words); });
  os << "  esac\n  case \"$command\" in\n";
  visit(program, "", [&](const DescribedCommand &command, const std::string &words) {
    os << "    " << quoted(words) << ") next=" << quoted(nextWords(command)) << (command.takesFiles() ? " files=1" : "")
       << " ;;\n";
  });
  os << "  esac\n"
     << "  mapfile -t COMPREPLY < <(compgen -W \"$next\" -- \"$current\"; [[ -z $files || $current == -* ]] || compgen "
        "-f -- "
        "\"$current\")\n"
     << "}\ncomplete -o filenames -F " << function << " " << program.name << "\n";
  return text;
}

//===----------------------------------------------------------------------===//
// zsh
//===----------------------------------------------------------------------===//

/// Text within a specification of _arguments.
static std::string zshText(StringRef text) {
  std::string escaped;
  for (char c : text)
    escaped += (StringRef("[]:\\").contains(c) ? "\\" : "") + std::string(1, c);
  return escaped;
}

/// The specifications of an option, one for each of its names.
static void addZshOption(raw_ostream &os, const DescribedOption &option) {
  std::string action;
  if (!option.words.empty())
    action = "(" + zshText(llvm::join(option.words, " ")) + ")";
  else if (option.takesFile())
    action = "_files";
  std::string value = option.value.empty() ? "" : ":" + zshText(option.value) + ":" + action;
  for (const std::string &name : option.names)
    os << " \\\n        " << quoted((option.isRepeated ? "*" : "") + name + "[" + zshText(option.help) + "]" + value);
}

/// The arguments of a command, whose name is words[1] here.
static void addZshArguments(raw_ostream &os, const DescribedCommand &command) {
  os << "      _arguments -S";
  for (const DescribedOption &option : command.options)
    if (!option.isPositional)
      addZshOption(os, option);
  if (command.takesFiles())
    os << " \\\n        '*:argument:_files'";
  os << '\n';
}

/// The subcommands, with their summaries.
static void addZshCommands(raw_ostream &os, const DescribedCommand &command) {
  os << "      local -a commands=(\n";
  for (const DescribedCommand &sub : command.commands)
    os << "        " << quoted(sub.word().str() + ":" + zshText(sub.summary)) << '\n';
  os << "      )\n      [[ ${words[CURRENT]} == -* ]] || _describe command commands\n";
}

std::string zshCompletion(const DescribedCommand &program) {
  std::string text, function = functionName(program);
  llvm::raw_string_ostream os(text);
  os << "#compdef " << program.name << "\n# Made from the table of options of " << program.name << ".\n"
     << function
     << "() {\n  local command= word\n  for word in ${words[2,CURRENT-1]}; do\n    case \"$command $word\" in\n";
  visit(program, "", [&](const DescribedCommand &command, const std::string &words) {
    for (const DescribedCommand &sub : command.commands)
      os << "      " << quoted(words + " " + sub.word().str())
         << ") command=" << quoted(words + (words.empty() ? "" : " ") + sub.word().str()) << " ;;\n";
  });
  os << "    esac\n  done\n  case \"$command\" in\n";
  visit(program, "", [&](const DescribedCommand &command, const std::string &words) {
    os << "    " << quoted(words) << ")\n";
    if (!command.commands.empty())
      addZshCommands(os, command);
    addZshArguments(os, command);
    os << "      ;;\n";
  });
  os << "  esac\n}\n" << function << " \"$@\"\n";
  return text;
}

//===----------------------------------------------------------------------===//
// fish
//===----------------------------------------------------------------------===//

/// The condition under which a command's options and subcommands are offered.
static std::string fishCondition(const DescribedCommand &command, const std::string &words) {
  std::vector<std::string> parts, subs;
  for (const DescribedCommand &sub : command.commands)
    subs.push_back(sub.word().str());
  if (!subs.empty())
    parts.push_back("not __fish_seen_subcommand_from " + llvm::join(subs, " "));
  if (!words.empty())
    parts.push_back("__fish_seen_subcommand_from " + command.word().str());
  return parts.empty() ? "" : " -n " + fishQuoted(llvm::join(parts, "; and "));
}

static void addFishOption(raw_ostream &os, const DescribedOption &option, const std::string &start) {
  os << start;
  for (StringRef name : option.names)
    os << (name.consume_front("--") ? " -l " : " -s ") << (name.starts_with("-") ? name.drop_front() : name);
  if (!option.words.empty())
    os << " -x -a " << fishQuoted(llvm::join(option.words, " "));
  else if (!option.value.empty())
    os << (option.takesFile() ? " -r -F" : " -x");
  os << " -d " << fishQuoted(option.help) << '\n';
}

std::string fishCompletion(const DescribedCommand &program) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "# fish completion of " << program.name << ", made from its table of options.\n";
  visit(program, "", [&](const DescribedCommand &command, const std::string &words) {
    std::string start = "complete -c " + program.name + fishCondition(command, words);
    for (const DescribedCommand &sub : command.commands)
      os << start << (words.empty() ? " -f" : "") << " -a " << sub.word() << " -d " << fishQuoted(sub.summary) << '\n';
    for (const DescribedOption &option : command.options)
      if (!option.isPositional)
        addFishOption(os, option, start);
  });
  return text;
}

} // namespace kiln
