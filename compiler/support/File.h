//===- File.h - reading whole files, writing them atomically ----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The bytes of a file. Error: `PATH: error: cannot read: reason`.
Expected<std::string> readFile(StringRef path);

/// Writes a file completely or not at all: a temporary file beside it, checked for a full disk, then renamed.
/// Error: `PATH: error: cannot write: reason`.
Error writeFile(StringRef path, StringRef contents);

/// Writes files by relative name below a directory, which is made if it is missing and keeps what else is in it.
/// Error: as writeFile.
Error writeFiles(StringRef directory, const std::map<std::string, std::string> &files);

/// Writes a directory completely or not at all: files are staged in a temporary directory beside the target,
/// and `commit` renames it into place. An uncommitted stage is removed by the destructor.
class StagedDirectory {
public:
  /// Starts staging for `target`. `commit` removes what is there, so that it must be an empty directory or an earlier
  /// result: one that holds the first of `names` and, at its top, nothing but `names`.
  /// Error: the parent cannot be created or written, or the target holds something else.
  static Expected<StagedDirectory> create(StringRef target, ArrayRef<StringRef> names);

  StagedDirectory(StagedDirectory &&other) noexcept;
  ~StagedDirectory();

  /// Writes `relativePath` (its folders are made) in the stage.
  Error write(StringRef relativePath, StringRef contents);

  /// Replaces the target directory by the stage. Error: as `create`, should the target have changed since.
  Error commit();

private:
  StagedDirectory(std::string target, ArrayRef<StringRef> names, std::string stage);

  std::string target;
  std::vector<std::string> names;
  std::string stage;
};

/// Lower-case hexadecimal SHA-256 of the bytes.
std::string sha256Hex(StringRef bytes);

} // namespace kiln
