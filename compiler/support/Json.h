//===- Json.h - JSON objects with positions ---------------------------------===//
//
// llvm::json keeps no positions and lets a later duplicate key win. Configuration and checkpoint files need
// both: an error must point at its key, and a safetensors header with a duplicate key is malformed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

/// A parsed object and where each of its top-level keys and values stands in the text.
struct JsonObject {
  struct Member {
    std::string key;
    Location keyLoc;
    Location valueLoc;
  };

  json::Object values;
  std::vector<Member> members; ///< in file order; duplicates are kept

  /// Position of a member's value; of the file's start when there is no such member.
  Location valueLoc(StringRef key) const;

  const SourceFile *file = nullptr;
};

/// Parses a file's text as one JSON object. Error: not JSON, or not an object, at its place.
Expected<JsonObject> parseJsonObject(const SourceFile *file);

} // namespace kiln
