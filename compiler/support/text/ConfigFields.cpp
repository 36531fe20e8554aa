#include "support/text/ConfigFields.h"

#include "support/Diagnostic.h"

namespace kiln {

using Kind = ConfigValue::Kind;

const ConfigValue *Fields::find(StringRef key) {
  read.insert(key.str());
  return source.find(key);
}

Location Fields::place(StringRef key) const {
  const ConfigValue *value = source.find(key);
  return value ? value->loc : source.loc;
}

Expected<const ConfigValue *> Fields::require(StringRef key) {
  const ConfigValue *value = find(key);
  if (!value)
    return makeError(source.loc, prefix() + "missing key '" + key + "'");
  return value;
}

static Error toInteger(StringRef key, const ConfigValue &source, int64_t &value, int64_t least,
                       int64_t most = INT64_MAX) {
  if (source.kind != Kind::Int || source.integer < least || source.integer > most)
    return configError(key, source,
                       most == INT64_MAX ? formatv("an integer of {0} or more", least).str()
                                         : formatv("an integer from {0} to {1}", least, most).str());
  value = source.integer;
  return Error::success();
}

static Error toText(StringRef key, const ConfigValue &source, std::string &value) {
  if (source.kind != Kind::String)
    return configError(key, source, "a string");
  value = source.string;
  return Error::success();
}

static Error toExpr(StringRef key, const ConfigValue &source, Expr &value) {
  if (source.kind != Kind::String)
    return configError(key, source, "a formula over dims, as a string");
  Expected<Expr> parsed = Expr::parse(source.string);
  if (!parsed)
    return makeError(source.loc, key + ": " + takeDiagnostics(parsed.takeError()).front().message);
  value = *parsed;
  return Error::success();
}

Error Fields::integer(StringRef key, int64_t &value, int64_t least, int64_t most) {
  Expected<const ConfigValue *> member = require(key);
  return member ? toInteger(key, **member, value, least, most) : member.takeError();
}

Error Fields::optionalInteger(StringRef key, int64_t &value, int64_t least, int64_t most) {
  const ConfigValue *member = find(key);
  bool isThere = member && member->kind != Kind::Null;
  return isThere ? toInteger(key, *member, value, least, most) : Error::success();
}

Error Fields::integers(StringRef key, std::vector<int64_t> &values, int64_t least, int64_t most) {
  Expected<const ConfigValue *> member = require(key);
  if (!member)
    return member.takeError();
  if ((*member)->kind != Kind::Array)
    return configError(key, **member, "an array of integers");
  for (const ConfigValue &item : (*member)->array)
    if (Error error = toInteger(key, item, values.emplace_back(), least, most))
      return error;
  return Error::success();
}

/// A range for messages, like `a number from 1.2e-38 to 1`.
static std::string numberRange(double least, double most) {
  if (std::isinf(least) && std::isinf(most))
    return "a number";
  std::string text = "a number from ";
  raw_string_ostream(text) << llvm::format("%.2g to %.2g", least, most);
  return text;
}

Error Fields::number(StringRef key, double &value, double least, double most) {
  Expected<const ConfigValue *> member = require(key);
  if (!member)
    return member.takeError();
  bool isNumber = (*member)->kind == Kind::Float || (*member)->kind == Kind::Int;
  bool isBounded = std::isfinite(least) || std::isfinite(most);
  if (!isNumber || (isBounded && !((*member)->real >= least && (*member)->real <= most)))
    return configError(key, **member, numberRange(least, most));
  value = (*member)->real;
  return Error::success();
}

Error Fields::flag(StringRef key, bool &value) {
  const ConfigValue *member = find(key);
  if (!member)
    return Error::success();
  if (member->kind != Kind::Bool)
    return configError(key, *member, "true or false");
  value = member->boolean;
  return Error::success();
}

Error Fields::text(StringRef key, std::string &value) {
  Expected<const ConfigValue *> member = require(key);
  return member ? toText(key, **member, value) : member.takeError();
}

Error Fields::optionalText(StringRef key, std::string &value) {
  const ConfigValue *member = find(key);
  bool isThere = member && member->kind != Kind::Null;
  return isThere ? toText(key, *member, value) : Error::success();
}

Error Fields::texts(StringRef key, std::vector<std::string> &values) {
  Expected<const ConfigValue *> member = require(key);
  if (!member)
    return member.takeError();
  if ((*member)->kind != Kind::Array)
    return configError(key, **member, "an array of strings");
  for (const ConfigValue &item : (*member)->array)
    if (Error error = toText(key, item, values.emplace_back()))
      return error;
  return Error::success();
}

Error Fields::dtype(StringRef key, DType &value) {
  std::string name;
  if (Error error = text(key, name))
    return error;
  std::optional<DType> parsed = parseDType(name);
  if (!parsed)
    return configError(key, *source.find(key), "f32, f16, bf16 or i32");
  value = *parsed;
  return Error::success();
}

Error Fields::expr(StringRef key, Expr &value) {
  Expected<const ConfigValue *> member = require(key);
  return member ? toExpr(key, **member, value) : member.takeError();
}

Error Fields::optionalExpr(StringRef key, Expr &value) {
  const ConfigValue *member = find(key);
  return member ? toExpr(key, *member, value) : Error::success();
}

Error Fields::exprs(StringRef key, SmallVectorImpl<Expr> &values) {
  Expected<const ConfigValue *> member = require(key);
  if (!member)
    return member.takeError();
  if ((*member)->kind != Kind::Array)
    return configError(key, **member, "an array of formulas");
  for (const ConfigValue &item : (*member)->array)
    if (Error error = toExpr(key, item, values.emplace_back()))
      return error;
  return Error::success();
}

Error Fields::table(StringRef key, const ConfigValue *&value) {
  if (Expected<const ConfigValue *> member = require(key); !member)
    return member.takeError();
  return optionalTable(key, value);
}

Error Fields::optionalTable(StringRef key, const ConfigValue *&value) {
  value = find(key);
  return !value || value->kind == Kind::Table ? Error::success() : configError(key, *value, "a table");
}

Error Fields::optionalArray(StringRef key, const ConfigValue *&value) {
  value = find(key);
  return !value || value->kind == Kind::Array ? Error::success() : configError(key, *value, "an array of tables");
}

std::vector<const ConfigMember *> Fields::unread() const {
  std::vector<const ConfigMember *> members;
  for (const ConfigMember &member : source.table)
    if (!read.contains(member.key))
      members.push_back(&member);
  return members;
}

Error Fields::unknown(const ConfigMember &member) const {
  return makeError(member.keyLoc, prefix() + "unknown key '" + member.key + "'");
}

Error Fields::close() const {
  std::vector<const ConfigMember *> members = unread();
  return members.empty() ? Error::success() : unknown(*members.front());
}

} // namespace kiln
