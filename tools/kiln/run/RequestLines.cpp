#include "tools/kiln/run/RequestLines.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/text/Json.h"
#include "support/text/Nearest.h"
#include "tools/kiln/options/OptionChecks.h"

#include <cmath>

namespace kiln {

namespace {

/// What a line says.
struct Line {
  SequenceOptions options;
  bool special = false;
  int64_t samples = 1;
  std::optional<bool> greedy;
  bool isSampled = false; ///< whether the line has an option of sampling
  std::string prompt;
};

/// An option with one value. As text, a bool is `true` or `false`.
struct Field {
  StringRef name;
  json::Value::Kind kind;
  OptionCheck check;
  void (*take)(Line &line, StringRef text);
  bool isOfSampling = false;
};

template <class Int> Int integerOf(StringRef text) {
  Int value = 0;
  text.getAsInteger(10, value);
  return value;
}

double realOf(StringRef text) {
  double value = 0;
  text.getAsDouble(value);
  return value;
}

const std::vector<Field> &allFields() {
  using Kind = json::Value::Kind;
  const OptionCheck any = [](const std::string &) { return ""; };
  static const std::vector<Field> fields = {
      {"prompt", Kind::String, any, [](Line &line, StringRef text) { line.prompt = text.str(); }},
      {"special", Kind::Boolean, any, [](Line &line, StringRef text) { line.special = text == "true"; }},
      {"n", Kind::Number, checkSamples, [](Line &line, StringRef text) { line.samples = integerOf<int64_t>(text); }},
      {"logprobs", Kind::Number, checkAlternatives,
       [](Line &line, StringRef text) { line.options.logProbabilities = integerOf<int64_t>(text); }},
      {"echo", Kind::Boolean, any, [](Line &line, StringRef text) { line.options.echo = text == "true"; }},
      {"max_new_tokens", Kind::Number, checkZeroOrMore,
       [](Line &line, StringRef text) { line.options.maxNewTokens = integerOf<int64_t>(text); }},
      {"greedy", Kind::Boolean, any, [](Line &line, StringRef text) { line.greedy = text == "true"; }},
      {"temperature", Kind::Number, checkTemperature,
       [](Line &line, StringRef text) { line.options.sampling.temperature = realOf(text); }, true},
      {"top_k", Kind::Number, checkZeroOrMore,
       [](Line &line, StringRef text) { line.options.sampling.topK = integerOf<int64_t>(text); }, true},
      {"top_p", Kind::Number, positiveNumber(1),
       [](Line &line, StringRef text) { line.options.sampling.topP = realOf(text); }, true},
      {"min_p", Kind::Number, checkMinP, [](Line &line, StringRef text) { line.options.sampling.minP = realOf(text); },
       true},
      {"repetition_penalty", Kind::Number, checkRepetitionPenalty(),
       [](Line &line, StringRef text) { line.options.logits.repetitionPenalty = realOf(text); }},
      {"presence_penalty", Kind::Number, checkLogitShift(),
       [](Line &line, StringRef text) { line.options.logits.presencePenalty = realOf(text); }},
      {"seed", Kind::Number, checkSeed,
       [](Line &line, StringRef text) { line.options.sampling.seed = integerOf<uint64_t>(text); }, true},
      {"ignore_eos", Kind::Boolean, any, [](Line &line, StringRef text) { line.options.ignoreEos = text == "true"; }},
      {"overflow", Kind::String, checkOverflow,
       [](Line &line, StringRef text) { line.options.overflow = *parseOverflowPolicy(text); }},
  };
  return fields;
}

/// The value in the form that messages show.
std::string describe(const json::Value &value) {
  if (value.getAsArray())
    return "an array";
  if (value.getAsObject())
    return "an object";
  return jsonText(value);
}

StringRef kindName(json::Value::Kind kind) {
  switch (kind) {
  case json::Value::Number:
    return "a number";
  case json::Value::Boolean:
    return "true or false";
  default:
    return "text";
  }
}

/// Reads one line.
class LineReader {
public:
  LineReader(const JsonObject &object, const LineContext &context) : object(object), context(context) {
    line.options = context.defaults;
    line.special = context.special;
    line.samples = context.samples;
  }

  /// Appends the line's requests.
  Error read(std::vector<LineRequest> &requests);

private:
  using Member = JsonObject::Member;

  Error readMember(const Member &member);
  Error readId(const Member &member, const json::Value &value);
  Error readField(const Field &field, const Member &member, const json::Value &value);
  Error readTokens(const Member &member, const json::Value &value);
  Error readStop(const Member &member, const json::Value &value);
  Error readBias(const Member &member);
  Error settleSampling();
  Expected<std::vector<int32_t>> takePrompt() const;
  const Member *find(StringRef key) const;

  static Error fail(const Member &member, const Twine &message) {
    return makeError(member.valueLoc, member.key + ": " + message);
  }

  const JsonObject &object;
  const LineContext &context;
  Line line;
  std::vector<int32_t> tokens;
};

const JsonObject::Member *LineReader::find(StringRef key) const {
  auto it = llvm::find_if(object.members, [&](const Member &member) { return member.key == key; });
  return it == object.members.end() ? nullptr : &*it;
}

Error LineReader::readField(const Field &field, const Member &member, const json::Value &value) {
  if (value.kind() != field.kind)
    return fail(member, "expected " + kindName(field.kind) + ", got " + describe(value));
  std::optional<StringRef> string = value.getAsString();
  std::string text = string ? string->str() : jsonText(value);
  if (std::string wrong = field.check(text); !wrong.empty())
    return fail(member, wrong);
  field.take(line, text);
  line.isSampled |= field.isOfSampling;
  return Error::success();
}

Error LineReader::readTokens(const Member &member, const json::Value &value) {
  const json::Array *array = value.getAsArray();
  if (!array)
    return fail(member, "expected an array of token ids, got " + describe(value));
  std::vector<Location> places = elementLocs(object, member);
  for (const auto &[element, place] : llvm::zip(*array, places)) {
    std::optional<int64_t> id = element.kind() == json::Value::Number ? jsonInteger(element) : std::nullopt;
    if (!id || *id < 0 || *id >= context.vocabulary)
      return makeError(place, "tokens: expected token ids in 0.." + Twine(context.vocabulary - 1) + ", got " +
                                  describe(element));
    tokens.push_back(static_cast<int32_t>(*id));
  }
  return Error::success();
}

/// One text or several.
Error LineReader::readStop(const Member &member, const json::Value &value) {
  line.options.stopStrings.clear();
  json::Array one({value});
  const json::Array *texts = value.getAsArray();
  for (const json::Value &text : texts ? *texts : one) {
    std::optional<StringRef> string = text.getAsString();
    if (!string || string->empty())
      return fail(member, "expected some text, or an array of texts, got " + describe(text));
    line.options.stopStrings.push_back(string->str());
  }
  if (!context.tokenizer && !line.options.stopStrings.empty())
    return fail(member, "expected a model with a vocabulary, to compare text with, got none");
  return Error::success();
}

/// Numbers beyond 64 bits are doubles when they are read, and some doubles no number when they are written.
static bool isRepeatable(const json::Value &value) {
  if (const json::Array *array = value.getAsArray())
    return llvm::all_of(*array, isRepeatable);
  if (const json::Object *object = value.getAsObject())
    return llvm::all_of(*object, [](const auto &member) { return isRepeatable(member.second); });
  const std::optional<double> number = value.getAsNumber();
  return !number || value.getAsInteger() || value.getAsUINT64() || std::abs(*number) < 0x1p53;
}

/// Any value that the results can have as it is.
Error LineReader::readId(const Member &member, const json::Value &value) {
  if (!isRepeatable(value))
    return fail(member, "expected numbers of at most 64 bits; others are possible as text");
  return Error::success();
}

/// An object of biases by id.
Error LineReader::readBias(const Member &member) {
  Expected<JsonObject> biases = childObject(object, member);
  if (!biases)
    return biases.takeError();
  line.options.logits.bias.clear();
  for (const Member &bias : biases->members) {
    int32_t id = -1;
    if (StringRef(bias.key).getAsInteger(10, id) || id < 0 || id >= context.vocabulary)
      return makeError(bias.keyLoc, "logit_bias: expected token ids in 0.." + Twine(context.vocabulary - 1) +
                                        ", got '" + bias.key + "'");
    if (line.options.logits.bias.count(id))
      return makeError(bias.keyLoc, "logit_bias: token " + Twine(id) + " is given twice");
    const json::Value &value = *biases->values.get(bias.key);
    std::string text = describe(value);
    if (value.kind() != json::Value::Number || !checkLogitShift()(text).empty())
      return makeError(bias.valueLoc, "logit_bias: expected a number from -1000 to 1000, got " + text);
    line.options.logits.bias[id] = static_cast<float>(realOf(text));
  }
  return Error::success();
}

Error LineReader::readMember(const Member &member) {
  if (find(member.key) != &member)
    return makeError(member.keyLoc, "field '" + member.key + "' is given twice");
  const json::Value &value = *object.values.get(member.key);
  if (member.key == "id")
    return readId(member, value);
  if (member.key == "tokens")
    return readTokens(member, value);
  if (member.key == "stop")
    return readStop(member, value);
  if (member.key == "logit_bias")
    return readBias(member);
  std::vector<StringRef> names = {"id", "tokens", "stop", "logit_bias"};
  for (const Field &field : allFields()) {
    if (field.name == member.key)
      return readField(field, member, value);
    names.push_back(field.name);
  }
  std::string help = didYouMean(member.key, names);
  return makeError(member.keyLoc, "unknown field '" + member.key + "', expected " +
                                      (help.empty() ? "one of " + llvm::join(names, ", ") : "another" + help));
}

/// Decides between greedy and sampling. A line's own options count more than the command's --greedy.
Error LineReader::settleSampling() {
  SamplingParams &sampling = line.options.sampling;
  if (line.greedy.value_or(false) && line.isSampled)
    return fail(*find("greedy"), "expected no temperature, top_k, top_p, min_p or seed beside it");
  if (line.greedy || line.isSampled)
    sampling.greedy = line.greedy.value_or(false);
  if (sampling.temperature == 0 || sampling.greedy)
    sampling = {.greedy = true};
  return Error::success();
}

Expected<std::vector<int32_t>> LineReader::takePrompt() const {
  const Member *text = find("prompt"), *ids = find("tokens");
  if (!text && !ids)
    return makeError({object.file, 1, 1}, "expected prompt or tokens, got neither");
  if (text && ids)
    return makeError(ids->keyLoc, "tokens: expected no prompt beside it");
  if (text && !context.tokenizer)
    return fail(*text, "expected a model with a vocabulary, got none; give tokens");
  std::vector<int32_t> prompt = text ? context.tokenizer->encode(line.prompt, line.special) : tokens;
  if (prompt.empty() && context.begin)
    prompt = {*context.begin};
  if (std::string wrong = promptProblem(prompt, line.options, context.vocabulary, context.context); !wrong.empty())
    return fail(text ? *text : *ids, wrong);
  return prompt;
}

Error LineReader::read(std::vector<LineRequest> &requests) {
  for (const Member &member : object.members)
    if (Error error = readMember(member))
      return error;
  if (Error error = settleSampling())
    return error;
  if (line.options.echo && !line.options.logProbabilities)
    return fail(*find("echo"), "expected logprobs beside it");
  Expected<std::vector<int32_t>> prompt = takePrompt();
  if (!prompt)
    return prompt.takeError();
  const Member *id = find("id");
  for (int64_t sample = 0; sample < line.samples; ++sample)
    requests.push_back({{*prompt, static_cast<uint64_t>(sample), line.options},
                        id ? *object.values.get("id") : json::Value(nullptr),
                        line.samples > 1 ? std::optional(sample) : std::nullopt,
                        object.file->linesBefore + 1});
  return Error::success();
}

} // namespace

Expected<std::vector<LineRequest>> parseRequestLines(StringRef path, StringRef text, const LineContext &context) {
  constexpr int mostErrors = 20;
  std::vector<LineRequest> requests;
  Error errors = Error::success();
  int errorCount = 0;
  for (unsigned number = 0; !text.empty() && errorCount < mostErrors; ++number) {
    auto [lineText, rest] = text.split('\n');
    text = rest;
    if (lineText.trim().empty())
      continue;
    const SourceFile file{path.str(), lineText.str(), /*linesBefore=*/number};
    Expected<JsonObject> object = parseJsonObject(&file);
    Error error = object ? LineReader(*object, context).read(requests) : object.takeError();
    errorCount += bool(error);
    errors = llvm::joinErrors(std::move(errors), std::move(error));
  }
  if (errorCount == mostErrors && !text.trim().empty())
    errors = llvm::joinErrors(std::move(errors), makeFileError(path, "too many errors; further lines were not read"));
  if (errors)
    return errors;
  return requests;
}

Expected<std::vector<LineRequest>> readRequestLines(StringRef path, const LineContext &context) {
  Expected<std::string> text = readInput(path);
  if (!text)
    return text.takeError();
  return parseRequestLines(inputName(path), *text, context);
}

} // namespace kiln
