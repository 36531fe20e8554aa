#include "support/text/Config.h"

#include "support/Diagnostic.h"
#include "support/text/Json.h"
#include "support/text/Number.h"

namespace kiln {

const ConfigValue *ConfigValue::find(StringRef key) const {
  auto it = llvm::find_if(table, [&](const ConfigMember &member) { return member.key == key; });
  return it == table.end() ? nullptr : &it->value;
}

std::string ConfigValue::describe() const {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return boolean ? "true" : "false";
  case Kind::Int:
    return std::to_string(integer);
  case Kind::Float:
    return numberText(real);
  case Kind::String:
    return "\"" + string + "\"";
  case Kind::Array:
    return "an array";
  case Kind::Table:
    return "a table";
  case Kind::Other:
    return "a value of another kind";
  }
  llvm_unreachable("unknown kind");
}

Error configError(StringRef key, const ConfigValue &value, const Twine &what) {
  return makeError(value.loc, key + ": expected " + what + ", got " + value.describe());
}

static ConfigValue fromJson(const json::Value &source, Location loc) {
  using Kind = ConfigValue::Kind;
  ConfigValue value;
  value.loc = loc;
  if (auto boolean = source.getAsBoolean()) {
    value.kind = Kind::Bool;
    value.boolean = *boolean;
  } else if (auto integer = jsonInteger(source); integer && source.kind() == json::Value::Number) {
    value.kind = Kind::Int;
    value.integer = *integer;
    value.real = static_cast<double>(*integer);
  } else if (auto number = source.getAsNumber()) {
    value.kind = Kind::Float;
    value.real = *number;
  } else if (auto string = source.getAsString()) {
    value.kind = Kind::String;
    value.string = string->str();
  } else if (const json::Array *array = source.getAsArray()) {
    value.kind = Kind::Array;
    for (const json::Value &item : *array)
      value.array.push_back(fromJson(item, loc));
  } else if (const json::Object *object = source.getAsObject()) {
    value.kind = Kind::Table;
    for (const auto &[key, item] : *object)
      value.table.push_back({key.str(), loc, fromJson(item, loc)});
    llvm::sort(value.table, [](const ConfigMember &a, const ConfigMember &b) { return a.key < b.key; });
  }
  return value;
}

/// Whether the text begins with a number in floating-point notation; llvm::json does not distinguish 64 from 64.0.
static bool isFloatLiteral(StringRef text) {
  return text.take_while([](char c) { return llvm::isDigit(c) || StringRef("+-.eE").contains(c); })
             .find_first_of(".eE") != StringRef::npos;
}

static ConfigValue fromMember(const JsonObject &object, const JsonObject::Member &member) {
  ConfigValue value = fromJson(*object.values.get(member.key), member.valueLoc);
  if (value.kind == ConfigValue::Kind::Int &&
      isFloatLiteral(StringRef(*object.file->text).drop_front(member.valueOffset)))
    value.kind = ConfigValue::Kind::Float;
  for (auto [item, loc] : llvm::zip(value.array, elementLocs(object, member)))
    item.loc = loc;
  return value;
}

Expected<ConfigValue> parseJsonConfig(const SourceFile *file) {
  Expected<JsonObject> object = parseJsonObject(file);
  if (!object)
    return object.takeError();
  ConfigValue root;
  root.kind = ConfigValue::Kind::Table;
  root.loc = {file, 1, 1};
  StringSet<> keys;
  for (const JsonObject::Member &member : object->members) {
    if (!keys.insert(member.key).second)
      return makeError(member.keyLoc, "key '" + member.key + "' is given twice");
    root.table.push_back({member.key, member.keyLoc, fromMember(*object, member)});
  }
  llvm::sort(root.table, [](const ConfigMember &a, const ConfigMember &b) { return a.key < b.key; });
  return root;
}

} // namespace kiln
