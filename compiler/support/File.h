//===- File.h - reading whole files, writing them atomically ----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The bytes of a file. Error: `PATH: error: cannot read: reason`.
Expected<std::string> readFile(StringRef path);

/// Writes a file completely or not at all: a temporary file beside it, checked for a full disk, then renamed.
/// Error: `PATH: error: cannot write: reason`.
Error writeFile(StringRef path, StringRef contents);

/// Writes a directory completely or not at all: files are staged in a temporary directory beside the target,
/// and `commit` renames it into place. An uncommitted stage is removed by the destructor.
class StagedDirectory {
public:
  /// Starts staging for `target`. Error: the parent cannot be created or written, or the target exists and is
  /// not a directory.
  static Expected<StagedDirectory> create(StringRef target);

  StagedDirectory(StagedDirectory &&other) noexcept;
  ~StagedDirectory();

  /// Writes `relativePath` (its folders are made) in the stage.
  Error write(StringRef relativePath, StringRef contents);

  /// Replaces the target directory by the stage.
  Error commit();

private:
  StagedDirectory(std::string target, std::string stage)
      : target(std::move(target)), stage(std::move(stage)) {}

  std::string target;
  std::string stage;
};

/// Lower-case hexadecimal SHA-256 of the bytes.
std::string sha256Hex(StringRef bytes);

} // namespace kiln
