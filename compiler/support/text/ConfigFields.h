//===- ConfigFields.h - typed access to the fields of a table ---------------===//
#pragma once

#include "support/model/DType.h"
#include "support/model/Expr.h"
#include "support/text/Config.h"

#include <cmath>

namespace kiln {

/// Runs steps until one fails.
template <class... Steps> Error chain(Steps &&...steps) {
  Error error = Error::success();
  auto run = [&](auto &&step) {
    if (!error)
      error = step();
  };
  (run(steps), ...);
  return error;
}

/// Reads the members of one table. Each reader fails at the member's position if it is missing or of another type. An
/// optional reader leaves the value unchanged if the member is missing or null. `close` fails at the first member that
/// was not read.
class Fields {
public:
  /// `what` names the table in messages about missing and unknown members; it is empty for the whole file.
  Fields(const ConfigValue &table, StringRef what) : source(table), what(what) {}

  /// Returns a member and marks it as read; null if it does not exist.
  const ConfigValue *find(StringRef key);
  /// The position of a member's value, or of the table if the member does not exist.
  Location place(StringRef key) const;

  Error integer(StringRef key, int64_t &value, int64_t least = 0, int64_t most = INT64_MAX);
  Error optionalInteger(StringRef key, int64_t &value, int64_t least = 0, int64_t most = INT64_MAX);
  Error integers(StringRef key, std::vector<int64_t> &values, int64_t least = 0, int64_t most = INT64_MAX);
  /// Accepts integers as well.
  Error number(StringRef key, double &value, double least = -INFINITY, double most = INFINITY);
  /// Leaves `value` unchanged if the member does not exist.
  Error flag(StringRef key, bool &value);
  Error text(StringRef key, std::string &value);
  Error optionalText(StringRef key, std::string &value);
  Error texts(StringRef key, std::vector<std::string> &values);
  Error dtype(StringRef key, DType &value);
  Error expr(StringRef key, Expr &value);
  Error optionalExpr(StringRef key, Expr &value);
  Error exprs(StringRef key, SmallVectorImpl<Expr> &values);
  Error table(StringRef key, const ConfigValue *&value);
  Error optionalTable(StringRef key, const ConfigValue *&value);

  /// Reads an array of tables, an item from each.
  template <class Item> Error each(StringRef key, std::vector<Item> &items,
                                   Error (*read)(const ConfigValue &, Item &)) {
    if (Expected<const ConfigValue *> member = require(key); !member)
      return member.takeError();
    return optionalEach(key, items, read);
  }
  /// Reads an array of tables, if the member exists.
  template <class Item>
  Error optionalEach(StringRef key, std::vector<Item> &items, Error (*read)(const ConfigValue &, Item &)) {
    const ConfigValue *array = nullptr;
    if (Error error = optionalArray(key, array))
      return error;
    if (!array)
      return Error::success();
    for (const ConfigValue &value : array->array) {
      if (value.kind != ConfigValue::Kind::Table)
        return configError(key, value, "a table");
      if (Error error = read(value, items.emplace_back()))
        return error;
    }
    return Error::success();
  }

  /// The members that have not been read, by key.
  std::vector<const ConfigMember *> unread() const;
  /// The error `unknown key 'x'`.
  Error unknown(const ConfigMember &member) const;
  Error close() const;

private:
  std::string prefix() const { return what.empty() ? "" : what + ": "; }
  Expected<const ConfigValue *> require(StringRef key);
  Error optionalArray(StringRef key, const ConfigValue *&value);

  const ConfigValue &source;
  std::string what;
  std::set<std::string, std::less<>> read;
};

} // namespace kiln
