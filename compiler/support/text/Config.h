//===- Config.h - TOML and JSON documents with positions --------------------===//
//
// TOML and JSON are read into one tree, so that each check and message is written once for both.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

struct ConfigMember;

/// A value of a configuration file, with its position.
struct ConfigValue {
  /// Null comes from JSON only; Other are values that no reader uses (dates).
  enum class Kind { Null, Bool, Int, Float, String, Array, Table, Other };

  Kind kind = Kind::Null;
  Location loc;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0; ///< also set for an Int
  std::string string;
  std::vector<ConfigValue> array;
  std::vector<ConfigMember> table; ///< ordered by key

  /// The member of a table, or null.
  const ConfigValue *find(StringRef key) const;
  /// The value in the form that messages show: 768, "gelu", a table.
  std::string describe() const;
};

struct ConfigMember {
  std::string key;
  Location keyLoc;
  ConfigValue value;
};

/// Parses a TOML document. Errors have positions: a syntax error; tables and arrays nested more than 64 deep, where
/// each part of a dotted key counts.
Expected<ConfigValue> parseToml(const SourceFile *file);

/// Parses a JSON object. Top-level keys, their values, and elements of top-level arrays have their own positions; what
/// is nested deeper has the position of the value that contains it.
/// Error: not a JSON object, at its place.
Expected<ConfigValue> parseJsonConfig(const SourceFile *file);

/// `LOC: error: KEY: expected WHAT, got VALUE`.
Error configError(StringRef key, const ConfigValue &value, const Twine &what);

} // namespace kiln
