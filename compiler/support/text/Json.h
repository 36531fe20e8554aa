//===- Json.h - JSON objects with positions, and short numbers ---------------===//
//
// llvm::json keeps no positions, lets a later duplicate key win, and prints 17 digits of every number. Configuration
// and checkpoint files need more: an error must point at its key, and a safetensors header with a duplicate key is
// malformed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

/// A parsed object, with the positions of its own keys and values in the text.
struct JsonObject {
  struct Member {
    std::string key;
    Location keyLoc;
    Location valueLoc;
    size_t valueOffset = 0; ///< offset of the value's first byte in the file's text
  };

  json::Object values;
  std::vector<Member> members; ///< in file order; duplicates are kept

  /// The position of a member's value, or of the file's start if the member does not exist.
  Location valueLoc(StringRef key) const;

  const SourceFile *file = nullptr;
};

/// Parses a file's text as one JSON object. Errors have positions: not JSON, nested more than 64 deep, or not an
/// object.
Expected<JsonObject> parseJsonObject(const SourceFile *file);

/// Parses the value of `member` (one of `parent.members`) as an object with positions of its own. If keys are
/// duplicated, this member's text counts. Error: it is not an object.
Expected<JsonObject> childObject(const JsonObject &parent, const JsonObject::Member &member);

/// The positions of an array's elements, in order; empty if the value of `member` is not an array.
std::vector<Location> elementLocs(const JsonObject &parent, const JsonObject::Member &member);

/// The value if it is a number without fraction that fits 64 bits. (getAsInteger of the library converts 2^63, which
/// does not fit.)
std::optional<int64_t> jsonInteger(const json::Value &value);

/// The value on one line, with keys in alphabetical order. A number has the fewest digits that read back as the same
/// double; infinity and NaN, which JSON lacks, are null.
std::string jsonText(const json::Value &value);

/// A float for jsonText, which prints it with the fewest digits that read back as the same float.
json::Value jsonFloat(float value);

/// A measured or computed quantity with 12 significant digits: further digits are only rounding errors.
json::Value jsonQuantity(double value);

} // namespace kiln
