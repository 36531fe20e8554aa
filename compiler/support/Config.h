//===- Config.h - TOML and JSON documents with positions --------------------===//
//
// One tree for both formats, so that whoever reads a configuration writes each check and message once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

struct ConfigMember;

/// A value of a configuration file and where it stands.
struct ConfigValue {
  /// Null comes from JSON only; Other is what neither format's readers ask for (dates).
  enum class Kind { Null, Bool, Int, Float, String, Array, Table, Other };

  Kind kind = Kind::Null;
  Location loc;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0; ///< of an Int too
  std::string string;
  std::vector<ConfigValue> array;
  std::vector<ConfigMember> table; ///< ordered by key

  /// The member of a table, or null.
  const ConfigValue *find(StringRef key) const;
  /// As messages show it: 768, "gelu", a table.
  std::string describe() const;
};

struct ConfigMember {
  std::string key;
  Location keyLoc;
  ConfigValue value;
};

/// Parses a TOML document. Error, at its place: a syntax error; tables and arrays nested more than 64 deep, dotted keys
/// counted by their parts.
Expected<ConfigValue> parseToml(const SourceFile *file);

/// Parses a JSON object; positions are those of top-level keys, their values and the elements of arrays among these,
/// what is nested deeper has the position of what it is in.
/// Error: not a JSON object, at its place.
Expected<ConfigValue> parseJsonConfig(const SourceFile *file);

/// `LOC: error: KEY: expected WHAT, got VALUE`.
Error configError(StringRef key, const ConfigValue &value, const Twine &what);

} // namespace kiln
