// The text of --strategy: `topic=name{parameter=1},…`.
#include "strategies/Strategy.h"

#include "support/Diagnostic.h"
#include "support/Nearest.h"

namespace kiln {

namespace {

/// A strategy that was asked for.
struct Choice {
  const Strategy *strategy = nullptr;
  StrategyArguments arguments;
  Location loc;
  std::string text; ///< `attention=windowed{w = 128}` as it is recorded: without blanks, what was given
};

class StrategyParser {
public:
  explicit StrategyParser(const SourceFile *file) : file(file), text(*file->text) {}

  Expected<std::vector<Choice>> parse();

private:
  Location here() const { return locate(file, at); }
  void skipBlanks() { at = std::min(text.size(), text.find_first_not_of(" \t\n", at)); }
  bool consume(char c);
  /// A name or number; empty where none stands.
  StringRef takeWord();
  Error expected(const Twine &what) const;

  Expected<Choice> parseChoice();
  Error parseArguments(Choice &choice);
  Error parseArgument(Choice &choice);

  const SourceFile *file;
  StringRef text;
  size_t at = 0;
};

bool StrategyParser::consume(char c) {
  skipBlanks();
  bool isThere = at < text.size() && text[at] == c;
  at += isThere ? 1 : 0;
  return isThere;
}

StringRef StrategyParser::takeWord() {
  skipBlanks();
  StringRef word = text.drop_front(at).take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '-'; });
  at += word.size();
  return word;
}

Error StrategyParser::expected(const Twine &what) const {
  std::string got = at < text.size() ? "'" + text.substr(at, 1).str() + "'" : "the end";
  return makeError(here(), "expected " + what + ", got " + got);
}

std::vector<StringRef> topics() {
  std::vector<StringRef> names;
  for (const Strategy &strategy : allStrategies())
    if (!llvm::is_contained(names, strategy.topic))
      names.push_back(strategy.topic);
  return names;
}

std::vector<StringRef> namesOf(StringRef topic) {
  std::vector<StringRef> names;
  for (const Strategy &strategy : allStrategies())
    if (strategy.topic == topic)
      names.push_back(strategy.name);
  return names;
}

/// `, expected one of on, off`, and which was probably meant.
std::string expectedOneOf(ArrayRef<StringRef> names, StringRef got) {
  return ", expected one of " + llvm::join(names, ", ") + didYouMean(got, names);
}

Expected<Choice> StrategyParser::parseChoice() {
  Choice choice;
  skipBlanks();
  choice.loc = here();
  StringRef topic = takeWord();
  if (topic.empty())
    return expected("a topic, one of " + llvm::join(topics(), ", "));
  if (namesOf(topic).empty())
    return makeError(choice.loc, "unknown topic '" + topic + "'" + expectedOneOf(topics(), topic));
  if (!consume('='))
    return expected("'=' after the topic " + topic);
  skipBlanks();
  Location nameLoc = here();
  StringRef name = takeWord();
  if (name.empty())
    return expected("one of " + llvm::join(namesOf(topic), ", "));
  for (const Strategy &strategy : allStrategies())
    if (strategy.topic == topic && strategy.name == name)
      choice.strategy = &strategy;
  if (!choice.strategy)
    return makeError(nameLoc, "unknown " + topic + " '" + name + "'" + expectedOneOf(namesOf(topic), name));
  choice.text = (topic + "=" + name).str();
  if (Error error = parseArguments(choice))
    return error;
  return choice;
}

Error StrategyParser::parseArguments(Choice &choice) {
  std::string given;
  if (consume('{') && !consume('}')) {
    do {
      if (Error error = parseArgument(choice))
        return error;
    } while (consume(','));
    if (!consume('}'))
      return expected("',' or '}'");
  }
  for (const auto &[name, value] : choice.arguments)
    given += (given.empty() ? "" : ",") + name + "=" + std::to_string(value);
  if (!given.empty())
    choice.text += "{" + given + "}";
  for (const StrategyParameter &parameter : choice.strategy->parameters)
    if (parameter.defaultValue)
      choice.arguments.insert({parameter.name.str(), *parameter.defaultValue});
  return Error::success();
}

std::string parameterNames(const Strategy &strategy) {
  return llvm::join(llvm::map_range(strategy.parameters, [](const StrategyParameter &p) { return p.name; }), ", ");
}

Error StrategyParser::parseArgument(Choice &choice) {
  const Strategy &strategy = *choice.strategy;
  skipBlanks();
  Location nameLoc = here();
  StringRef name = takeWord();
  if (name.empty())
    return expected("a parameter of " + strategy.topic + "=" + strategy.name);
  auto parameter = llvm::find_if(strategy.parameters, [&](const StrategyParameter &p) { return p.name == name; });
  if (parameter == strategy.parameters.end())
    return makeError(nameLoc, "unknown parameter '" + name + "' of " + strategy.topic + "=" + strategy.name +
                                  ", expected " +
                                  (strategy.parameters.empty() ? "none" : "one of " + parameterNames(strategy)));
  if (!consume('='))
    return expected("'=' after the parameter " + name);
  skipBlanks();
  Location valueLoc = here();
  StringRef word = takeWord();
  int64_t value = 0;
  if (word.getAsInteger(10, value) || value < parameter->least || value > parameter->most)
    return makeError(valueLoc, name + ": expected an integer from " + Twine(parameter->least) + " to " +
                                   Twine(parameter->most) + ", got '" + word + "'");
  if (!choice.arguments.insert({name.str(), value}).second)
    return makeError(nameLoc, "parameter '" + name + "' is given twice");
  return Error::success();
}

bool isExcluded(const Strategy &strategy, const Strategy &other) {
  std::string name = (other.topic + "=" + other.name).str();
  return llvm::is_contained(strategy.excludes, StringRef(name));
}

/// Whether the last choice goes together with those before it.
Error checkLast(ArrayRef<Choice> choices) {
  const Choice &last = choices.back();
  for (const Choice &other : choices.drop_back()) {
    if (other.strategy->topic == last.strategy->topic)
      return makeError(last.loc, "topic '" + last.strategy->topic + "' is given twice", other.loc, "first given here");
    if (isExcluded(*last.strategy, *other.strategy) || isExcluded(*other.strategy, *last.strategy))
      return makeError(last.loc, last.text + " and " + other.text + " exclude each other", other.loc,
                       "the other one is here");
  }
  return Error::success();
}

Expected<std::vector<Choice>> StrategyParser::parse() {
  std::vector<Choice> choices;
  do {
    Expected<Choice> choice = parseChoice();
    if (!choice)
      return choice.takeError();
    choices.push_back(std::move(*choice));
    if (Error error = checkLast(choices))
      return error;
  } while (consume(','));
  skipBlanks();
  if (at < text.size())
    return expected("',' between strategies");
  return choices;
}

/// Whether an option that has a topic, too, leaves it to the choice or says the same.
Error checkOption(const Choice &choice, StringRef topic, StringRef option, StringRef value, StringRef initial) {
  if (choice.strategy->topic != topic || value == initial || value == choice.strategy->name)
    return Error::success();
  return makeError(choice.loc, choice.text + " and " + option + " " + value + " exclude each other");
}

} // namespace

Error applyStrategies(StringRef text, PipelineOptions &options) {
  SourceManager sources;
  Expected<std::vector<Choice>> choices = StrategyParser(sources.add("--strategy", text.str())).parse();
  if (!choices)
    return choices.takeError();
  std::vector<std::string> texts;
  const PipelineOptions initial;
  for (const Choice &choice : *choices) {
    if (Error error = checkOption(choice, "matmul", "--matmul", options.matmul, initial.matmul))
      return error;
    if (Error error = checkOption(choice, "precision", "--dtype", options.dtype, initial.dtype))
      return error;
    choice.strategy->apply(choice.arguments, options);
    texts.push_back(choice.text);
  }
  options.strategy = llvm::join(texts, ",");
  return Error::success();
}

static std::string parametersText(const Strategy &strategy) {
  std::vector<std::string> texts;
  for (const StrategyParameter &parameter : strategy.parameters) {
    std::string value = parameter.defaultValue ? "=" + std::to_string(*parameter.defaultValue) : "";
    texts.push_back(("`" + parameter.name + value + "`: " + parameter.doc + ", " + Twine(parameter.least) + " to " +
                     Twine(parameter.most))
                        .str());
  }
  return llvm::join(texts, "; ");
}

void listStrategies(raw_ostream &os) {
  os << "| topic | strategy | parameters | what it does |\n|---|---|---|---|\n";
  for (const Strategy &strategy : allStrategies())
    os << "| `" << strategy.topic << "` | `" << strategy.name << "` | " << parametersText(strategy) << " | "
       << strategy.summary << " |\n";
}

} // namespace kiln
