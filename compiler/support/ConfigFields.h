//===- ConfigFields.h - typed access to the fields of a table ---------------===//
#pragma once

#include "support/Config.h"
#include "support/DType.h"
#include "support/Expr.h"

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

/// The members of one table. Each reader fails at the member's place if it is missing or of another type; an optional
/// one leaves the value alone if there is no member, or null; `close` fails at the first member that nobody read.
class Fields {
public:
  /// `what` names the table in messages about missing and unknown members; empty: it is the whole file.
  Fields(const ConfigValue &table, StringRef what) : source(table), what(what) {}

  /// A member, which counts as read, or null.
  const ConfigValue *find(StringRef key);
  /// Where the value of a member stands; where the table does, if there is none.
  Location place(StringRef key) const;

  Error integer(StringRef key, int64_t &value, int64_t least = 0, int64_t most = INT64_MAX);
  Error optionalInteger(StringRef key, int64_t &value, int64_t least = 0, int64_t most = INT64_MAX);
  Error integers(StringRef key, std::vector<int64_t> &values, int64_t least = 0, int64_t most = INT64_MAX);
  /// Whole or not.
  Error number(StringRef key, double &value, double least = -INFINITY, double most = INFINITY);
  /// Unchanged if there is no member.
  Error flag(StringRef key, bool &value);
  Error text(StringRef key, std::string &value);
  Error texts(StringRef key, std::vector<std::string> &values);
  Error dtype(StringRef key, DType &value);
  Error expr(StringRef key, Expr &value);
  Error optionalExpr(StringRef key, Expr &value);
  Error exprs(StringRef key, SmallVectorImpl<Expr> &values);
  Error table(StringRef key, const ConfigValue *&value);
  Error optionalTable(StringRef key, const ConfigValue *&value);

  /// An array of tables: one item each.
  template <class Item> Error each(StringRef key, std::vector<Item> &items,
                                   Error (*read)(const ConfigValue &, Item &)) {
    if (Expected<const ConfigValue *> member = require(key); !member)
      return member.takeError();
    return optionalEach(key, items, read);
  }
  /// An array of tables, or nothing.
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

  /// Members that nobody has read, by key.
  std::vector<const ConfigMember *> unread() const;
  /// `unknown key 'x'`
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
