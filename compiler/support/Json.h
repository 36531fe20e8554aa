//===- Json.h - JSON objects with positions, and short numbers ---------------===//
//
// llvm::json keeps no positions and lets a later duplicate key win. Configuration and checkpoint files need
// both: an error must point at its key, and a safetensors header with a duplicate key is malformed. It also prints 17
// digits of every number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

/// A parsed object and where each of its own keys and values stands in the text.
struct JsonObject {
  struct Member {
    std::string key;
    Location keyLoc;
    Location valueLoc;
    size_t valueOffset = 0; ///< of the value's first byte in the file's text
  };

  json::Object values;
  std::vector<Member> members; ///< in file order; duplicates are kept

  /// Position of a member's value; of the file's start when there is no such member.
  Location valueLoc(StringRef key) const;

  const SourceFile *file = nullptr;
};

/// Parses a file's text as one JSON object. Error: not JSON, nested more than 64 deep, or not an object, at
/// its place.
Expected<JsonObject> parseJsonObject(const SourceFile *file);

/// The value of `member` (one of `parent.members`) as an object with positions of its own. When keys are
/// duplicated, the text of this very member counts. Error: it is not an object.
Expected<JsonObject> childObject(const JsonObject &parent, const JsonObject::Member &member);

/// Where the elements of an array stand, in order; empty when the value of `member` is not an array.
std::vector<Location> elementLocs(const JsonObject &parent, const JsonObject::Member &member);

/// The value on one line, keys in alphabetical order. A number has the fewest digits that read back as the same double;
/// what is infinite or no number, for which JSON has no word, is null.
std::string jsonText(const json::Value &value);

/// A float, which jsonText gives the fewest digits that read back as the same float.
json::Value jsonFloat(float value);

/// A quantity that was measured or computed, with 12 significant digits: what comes behind them is left from adding and
/// multiplying.
json::Value jsonQuantity(double value);

} // namespace kiln
