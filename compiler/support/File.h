//===- File.h - reading whole files, writing them atomically ----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The bytes of a file. Error: `PATH: error: cannot read: reason`.
Expected<std::string> readFile(StringRef path);
/// The same; - is standard input.
Expected<std::string> readInput(StringRef path);

/// Writes a file completely or not at all: a temporary file beside it, checked for a full disk, then renamed. What is
/// no regular file, such as /dev/stdout, is written as it is. Error: `PATH: error: cannot write: reason`.
Error writeFile(StringRef path, StringRef contents);

/// Puts files, by their relative names, into a directory, made if need be: all of them, or on an error of writing none.
/// Files of these names are replaced, everything else in the directory stays. Error: `PATH: error: cannot write:
/// reason`.
Error writeFiles(StringRef directory, const std::map<std::string, std::string> &files);

/// Writes a directory completely or not at all: files are staged in a temporary directory beside the target,
/// and `commit` renames it into place. An uncommitted stage is removed by the destructor. Signals that ask the program
/// to end wait for that too.
class StagedDirectory {
public:
  /// Starts staging for `target`, which `commit` will replace as a whole. `owned` says what may be lost by that:
  /// patterns of relative paths, `cubin/*/*.cubin`, where * stands for part of one component. They must outlive the
  /// stage. Error: the parent cannot be created or written; the target exists and is not a directory, or holds a file
  /// that fits none of the patterns.
  static Expected<StagedDirectory> create(StringRef target, ArrayRef<StringRef> owned);

  StagedDirectory(StagedDirectory &&other) noexcept;
  ~StagedDirectory();

  /// Where the files are until `commit`.
  StringRef path() const { return stage; }

  /// Writes `relativePath` (its folders are made) in the stage.
  Error write(StringRef relativePath, StringRef contents);

  /// Replaces the target directory by the stage. Error: as `create`, should the target have changed since.
  Error commit();

private:
  friend Error writeFiles(StringRef, const std::map<std::string, std::string> &);

  StagedDirectory(std::string target, std::string stage, ArrayRef<StringRef> owned);

  std::unique_ptr<class InterruptDelay> delay; ///< first, so that it outlives the removal of the stage
  std::string target;
  std::string stage;
  SmallVector<StringRef, 4> owned;
};

/// Lower-case hexadecimal SHA-256 of the bytes.
std::string sha256Hex(StringRef bytes);

} // namespace kiln
