// Parses the text of --strategy: `topic=name{parameter=1},…`.
#include "strategies/Strategy.h"

#include "ir/ParserBase.h"
#include "support/Diagnostic.h"
#include "support/text/Markdown.h"
#include "support/text/Nearest.h"

namespace kiln {

namespace {

/// A strategy that was asked for, with its arguments.
struct Choice {
  const Strategy *strategy = nullptr;
  StrategyArguments arguments;
  Location loc;
  std::string text; ///< the text to record, without blanks: `attention=windowed{w=128}`
};

/// Parses the text. Names are looked up at once, so that the first error reported is the first in the text.
class StrategyParser : ParserBase {
public:
  explicit StrategyParser(const SourceFile *file) : ParserBase(file, Lexer::Words::OfCommandLines) {}

  Expected<std::vector<Choice>> parse();

private:
  Expected<Choice> parseChoice();
  Error parseStrategy(Choice &choice, StringRef topic);
  Error parseArguments(Choice &choice);
};

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

/// The end of a message: `, expected one of on, off`, and the nearest name.
std::string expectedOneOf(ArrayRef<StringRef> names, StringRef got) {
  return ", expected one of " + llvm::join(names, ", ") + didYouMean(got, names);
}

std::string parameterNames(const Strategy &strategy) {
  return llvm::join(llvm::map_range(strategy.parameters, [](const StrategyParameter &p) { return p.name; }), ", ");
}

Expected<Choice> StrategyParser::parseChoice() {
  Choice choice;
  choice.loc = here();
  Expected<StringRef> topic = expect(Token::Kind::Word, "a topic, one of " + llvm::join(topics(), ", "));
  if (!topic)
    return topic.takeError();
  if (namesOf(*topic).empty())
    return makeError(choice.loc, "unknown topic '" + *topic + "'" + expectedOneOf(topics(), *topic));
  if (!consumePunct("="))
    return expected("'=' after the topic " + *topic);
  if (Error error = parseStrategy(choice, *topic))
    return error;
  if (token.is("{"))
    if (Error error = parseArguments(choice))
      return error;
  for (const StrategyParameter &parameter : choice.strategy->parameters)
    if (parameter.defaultValue)
      choice.arguments.insert({parameter.name.str(), *parameter.defaultValue});
  return choice;
}

/// Parses the name after the topic; it may be a number.
Error StrategyParser::parseStrategy(Choice &choice, StringRef topic) {
  if (token.kind != Token::Kind::Word && token.kind != Token::Kind::Int)
    return expected("one of " + llvm::join(namesOf(topic), ", "));
  for (const Strategy &strategy : allStrategies())
    if (strategy.topic == topic && strategy.name == token.text)
      choice.strategy = &strategy;
  if (!choice.strategy)
    return makeError(here(), "unknown " + topic + " '" + token.text + "'" + expectedOneOf(namesOf(topic), token.text));
  choice.text = (topic + "=" + token.text).str();
  advance();
  return Error::success();
}

Error takeArgument(Choice &choice, const NamedAttribute &argument) {
  const Strategy &strategy = *choice.strategy;
  auto parameter =
      llvm::find_if(strategy.parameters, [&](const StrategyParameter &p) { return p.name == argument.name; });
  if (parameter == strategy.parameters.end())
    return makeError(argument.nameLoc,
                     "unknown parameter '" + argument.name + "' of " + strategy.topic + "=" + strategy.name +
                         ", expected " + (strategy.parameters.empty() ? "none" : "one of " + parameterNames(strategy)));
  const Attribute &value = argument.value;
  if (value.kind() != Attribute::Kind::Int || value.asInt() < parameter->least || value.asInt() > parameter->most)
    return makeError(argument.valueLoc, argument.name + ": expected an integer from " + Twine(parameter->least) +
                                            " to " + Twine(parameter->most) + ", got " + value.str());
  choice.arguments.insert({argument.name, value.asInt()});
  return Error::success();
}

Error StrategyParser::parseArguments(Choice &choice) {
  auto arguments = parseAttributes();
  if (!arguments)
    return arguments.takeError();
  for (const NamedAttribute &argument : *arguments)
    if (Error error = takeArgument(choice, argument))
      return error;
  std::string given;
  for (const auto &[name, value] : choice.arguments)
    given += (given.empty() ? "" : ",") + name + "=" + std::to_string(value);
  if (!given.empty())
    choice.text += "{" + given + "}";
  return Error::success();
}

bool isExcluded(const Strategy &strategy, const Strategy &other) {
  std::string name = (other.topic + "=" + other.name).str();
  return llvm::is_contained(strategy.excludes, StringRef(name));
}

/// Checks that the last choice is compatible with those before it.
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
  } while (consumePunct(","));
  if (token.kind != Token::Kind::End)
    return expected("',' between strategies");
  return choices;
}

/// Checks that an option of the same topic has its default value, or agrees with the choice.
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
    if (Error error = checkOption(choice, "decode", "--decode", options.decode, initial.decode))
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
    printTableRow(os, {"`" + strategy.topic.str() + "`", "`" + strategy.name.str() + "`", parametersText(strategy),
                       strategy.summary.str()});
}

} // namespace kiln
