//===- SourceManager.h - input files and positions in them ------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// An input file by its display name. `text` is absent for files that are only referred to, such as the TOML in a loc()
/// of IR text that was read on its own; diagnostics in such a file show no source line.
struct SourceFile {
  std::string name;
  std::optional<std::string> text;
  unsigned linesBefore = 0; ///< of the file, if the text is only a part of it; diagnostics add them

  /// A line without its newline, counted from 1; empty if there is no text or no such line.
  StringRef line(unsigned number) const;
};

/// A position: 1-based line and column, or unknown when `file` is null.
struct Location {
  const SourceFile *file = nullptr;
  unsigned line = 0;
  unsigned column = 0;
  /// True if the position only tells where IR text was parsed, so that it is not part of the IR: diagnostics use it,
  /// but the printer leaves it out.
  bool isParsePosition = false;

  explicit operator bool() const { return file != nullptr; }
  bool operator==(const Location &other) const {
    return file == other.file && line == other.line && column == other.column;
  }
};

/// Owns every source file of a run; must outlive modules and whatever else holds a Location.
class SourceManager {
public:
  /// Reads a file. Error: a diagnostic `PATH: error: cannot read: reason`.
  Expected<const SourceFile *> open(StringRef path);

  /// Adds text under a display name.
  const SourceFile *add(StringRef name, std::string text);

  /// The file of that display name; it is created without text if it does not exist.
  const SourceFile *reference(StringRef name);

private:
  std::vector<std::unique_ptr<SourceFile>> files;
};

/// The position of byte `offset` in `file`, which must have text.
Location locate(const SourceFile *file, size_t offset);

} // namespace kiln
