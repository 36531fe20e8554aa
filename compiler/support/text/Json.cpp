#include "support/text/Json.h"

#include "support/Diagnostic.h"
#include "support/text/Number.h"

#include <cmath>

namespace kiln {

Location JsonObject::valueLoc(StringRef key) const {
  for (const Member &member : members)
    if (member.key == key)
      return member.valueLoc;
  return {file, 1, 1};
}

//===----------------------------------------------------------------------===//
// Finding children in text that llvm::json has accepted
//===----------------------------------------------------------------------===//

static constexpr StringRef whitespace = " \t\r\n";

/// The end of the string literal whose opening quote is at `at`, after its closing quote.
static size_t skipString(StringRef text, size_t at) {
  for (++at; text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  return at + 1;
}

/// The end of the value that starts at `at`.
static size_t skipValue(StringRef text, size_t at) {
  if (text[at] == '"')
    return skipString(text, at);
  if (text[at] != '{' && text[at] != '[')
    return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
  int depth = 0;
  do {
    if (text[at] == '"') {
      at = skipString(text, at);
      continue;
    }
    if (text[at] == '{' || text[at] == '[')
      ++depth;
    else if (text[at] == '}' || text[at] == ']')
      --depth;
    ++at;
  } while (depth > 0);
  return at;
}

/// The offsets of a key and its value; for an element of an array, both are the element's.
struct ChildOffsets {
  size_t key;
  size_t value;
};

/// The children of the object or array that starts at `at`, in order.
static std::vector<ChildOffsets> findChildren(StringRef text, size_t at) {
  std::vector<ChildOffsets> children;
  bool isObject = text[at] == '{';
  at = text.find_first_not_of(whitespace, at + 1);
  while (text[at] != '}' && text[at] != ']') {
    size_t key = at;
    if (isObject) {
      size_t colon = text.find(':', skipString(text, at));
      at = text.find_first_not_of(whitespace, colon + 1);
    }
    children.push_back({key, at});
    at = text.find_first_not_of(whitespace, skipValue(text, at));
    if (text[at] == ',')
      at = text.find_first_not_of(whitespace, at + 1);
  }
  return children;
}

namespace {
/// Turns increasing offsets into positions. It counts forwards only: a header of a hundred thousand keys on one line
/// must not take quadratic time.
class PositionCounter {
public:
  PositionCounter(Location start, size_t offset) : loc(start), offset(offset) {}

  Location at(size_t target) {
    for (StringRef text = *loc.file->text; offset < target; ++offset) {
      ++loc.column;
      if (text[offset] == '\n') {
        ++loc.line;
        loc.column = 1;
      }
    }
    return loc;
  }

private:
  Location loc;
  size_t offset;
};
} // namespace

/// The members of the object that starts at `offset`. `loc` is the position of `offset`.
static std::vector<JsonObject::Member> findMembers(Location loc, size_t offset) {
  StringRef text = *loc.file->text;
  PositionCounter position(loc, offset);
  std::vector<JsonObject::Member> members;
  for (ChildOffsets child : findChildren(text, offset)) {
    json::Value key = cantFail(json::parse(text.slice(child.key, skipString(text, child.key))));
    Location keyLoc = position.at(child.key);
    members.push_back({key.getAsString()->str(), keyLoc, position.at(child.value), child.value});
  }
  return members;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

/// llvm::json recurses for every level, so a file of a million brackets would overflow the stack. The text may still
/// turn out not to be JSON; an unfinished string ends the check.
static Error checkDepth(const SourceFile *file) {
  constexpr int maxDepth = 64;
  StringRef text = *file->text;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\')
          ++at;
    } else if (c == '{' || c == '[') {
      if (++depth > maxDepth)
        return makeError(locate(file, at), "expected at most " + Twine(maxDepth) + " nested JSON values");
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return Error::success();
}

/// Turns an error of llvm::json into a diagnostic at its position.
static Error makeParseError(const SourceFile *file, Error error) {
  Location loc{file, 1, 1};
  std::string message = "not valid JSON";
  llvm::handleAllErrors(
      std::move(error),
      [&](const json::ParseError &parseError) {
        // Printed as "[line:column, byte=offset]: what"; the class has no accessors.
        std::string printed = parseError.message();
        auto [position, what] = StringRef(printed).split("]: ");
        position.consume_front("[");
        unsigned line = 1, column = 1;
        position.consumeInteger(10, line);
        position.consume_front(":");
        position.consumeInteger(10, column);
        loc = {file, line, column + 1};
        message = "not valid JSON: " + what.lower();
      },
      [](const llvm::ErrorInfoBase &) {});
  return makeError(loc, message);
}

Expected<JsonObject> parseJsonObject(const SourceFile *file) {
  StringRef text = *file->text;
  if (Error error = checkDepth(file))
    return error;
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return makeParseError(file, value.takeError());
  json::Object *object = value->getAsObject();
  if (!object)
    return makeError({file, 1, 1}, "expected a JSON object");
  Location start{file, 1, 1};
  size_t brace = text.find('{');
  return JsonObject{std::move(*object), findMembers(PositionCounter(start, 0).at(brace), brace), file};
}

Expected<JsonObject> childObject(const JsonObject &parent, const JsonObject::Member &member) {
  StringRef text = *parent.file->text;
  size_t at = member.valueOffset;
  if (text[at] != '{')
    return makeError(member.valueLoc, member.key + ": expected an object");
  json::Value value = cantFail(json::parse(text.slice(at, skipValue(text, at))));
  return JsonObject{std::move(*value.getAsObject()), findMembers(member.valueLoc, at), parent.file};
}

std::vector<Location> elementLocs(const JsonObject &parent, const JsonObject::Member &member) {
  std::vector<Location> locs;
  StringRef text = *parent.file->text;
  if (text[member.valueOffset] != '[')
    return locs;
  PositionCounter position(member.valueLoc, member.valueOffset);
  for (ChildOffsets child : findChildren(text, member.valueOffset))
    locs.push_back(position.at(child.value));
  return locs;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

std::optional<int64_t> jsonInteger(const json::Value &value) {
  std::optional<double> number = value.getAsNumber();
  // Only integers of the text have a value of 64 bits here.
  bool isLargeReal = number && *number >= 0x1p63 && !value.getAsUINT64();
  return isLargeReal ? std::nullopt : value.getAsInteger();
}

static void writeJson(raw_ostream &os, const json::Value &value);

static void writeArray(raw_ostream &os, const json::Array &array) {
  os << '[';
  for (const auto &[i, element] : llvm::enumerate(array)) {
    os << (i ? "," : "");
    writeJson(os, element);
  }
  os << ']';
}

static void writeObject(raw_ostream &os, const json::Object &object) {
  std::map<StringRef, const json::Value *> members;
  for (const auto &[key, value] : object)
    members.insert({key, &value});
  os << '{';
  StringRef separator = "";
  for (const auto &[key, value] : members) {
    os << separator << json::Value(key) << ':';
    writeJson(os, *value);
    separator = ",";
  }
  os << '}';
}

static void writeJson(raw_ostream &os, const json::Value &value) {
  if (const json::Array *array = value.getAsArray())
    return writeArray(os, *array);
  if (const json::Object *object = value.getAsObject())
    return writeObject(os, *object);
  bool isReal = value.kind() == json::Value::Number && !jsonInteger(value) && !value.getAsUINT64();
  if (!isReal)
    os << value;
  else if (double number = *value.getAsNumber(); std::isfinite(number))
    os << numberText(number);
  else
    os << "null";
}

std::string jsonText(const json::Value &value) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, value);
  return text;
}

/// Parses the digits in a buffer.
static double readBack(const char *begin, const char *end) {
  double value = 0;
  std::from_chars(begin, end, value);
  return value;
}

json::Value jsonFloat(float value) {
  char buffer[32];
  return readBack(buffer, std::to_chars(std::begin(buffer), std::end(buffer), value).ptr);
}

json::Value jsonQuantity(double value) {
  char buffer[32];
  return readBack(buffer,
                  std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::general, 12).ptr);
}

} // namespace kiln
