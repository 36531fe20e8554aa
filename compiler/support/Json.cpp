#include "support/Json.h"

#include "support/Diagnostic.h"

namespace kiln {

Location JsonObject::valueLoc(StringRef key) const {
  for (const Member &member : members)
    if (member.key == key)
      return member.valueLoc;
  return {file, 1, 1};
}

/// End of the string literal that starts at `at` (a quote), past its closing quote. The text is valid JSON.
static size_t skipString(StringRef text, size_t at) {
  for (++at; text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  return at + 1;
}

/// Finds keys and values at depth one of an object that llvm::json has accepted. Positions are counted
/// forwards only: a header of a hundred thousand keys on one line must not take quadratic time.
static std::vector<JsonObject::Member> findMembers(const SourceFile *file) {
  std::vector<JsonObject::Member> members;
  StringRef text = *file->text;
  Location loc{file, 1, 1};
  size_t counted = 0;
  auto position = [&](size_t offset) {
    for (; counted < offset; ++counted) {
      ++loc.column;
      if (text[counted] == '\n') {
        ++loc.line;
        loc.column = 1;
      }
    }
    return loc;
  };
  int depth = 0;
  bool expectKey = false;
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    if (c == '{' || c == '[') {
      ++depth;
      expectKey = depth == 1;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      expectKey = depth == 1;
    } else if (c == '"') {
      size_t end = skipString(text, at);
      if (expectKey) {
        expectKey = false;
        Expected<json::Value> key = json::parse(text.slice(at, end));
        Location keyLoc = position(at);
        size_t value = text.find_first_not_of(" \t\r\n", text.find(':', end) + 1);
        members.push_back({cantFail(std::move(key)).getAsString()->str(), keyLoc, position(value)});
        at = value;
        continue;
      }
      at = end;
      continue;
    }
    ++at;
  }
  return members;
}

Expected<JsonObject> parseJsonObject(const SourceFile *file) {
  StringRef text = *file->text;
  Expected<json::Value> value = json::parse(text);
  if (!value) {
    Location loc{file, 1, 1};
    std::string message = "not valid JSON";
    llvm::handleAllErrors(
        value.takeError(),
        [&](const json::ParseError &error) {
          // Printed as "[line:column, byte=offset]: what"; the class has no accessors.
          StringRef rest = StringRef(message = error.message());
          auto [position, what] = rest.split("]: ");
          position.consume_front("[");
          unsigned line = 1, column = 1;
          position.consumeInteger(10, line);
          position.consume_front(":");
          position.consumeInteger(10, column);
          loc = {file, line, column + 1};
          message = ("not valid JSON: " + what.lower());
        },
        [](const llvm::ErrorInfoBase &) {});
    return makeError(loc, message);
  }
  json::Object *object = value->getAsObject();
  if (!object)
    return makeError({file, 1, 1}, "expected a JSON object");
  return JsonObject{std::move(*object), findMembers(file), file};
}

} // namespace kiln
