//===- File.h - reading whole files, writing them atomically ----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A regular file, open for reading; closed with this object. A device may have no end, and a pipe keeps its reader
/// waiting, so where a file is expected they are errors.
class RegularFile {
public:
  /// Error: `PATH: error: cannot read: reason`.
  static Expected<RegularFile> open(StringRef path);

  RegularFile(RegularFile &&other) noexcept
      : opened(std::exchange(other.opened, llvm::sys::fs::kInvalidFile)), bytes(other.bytes) {}
  ~RegularFile();

  llvm::sys::fs::file_t descriptor() const { return opened; }
  uint64_t size() const { return bytes; }

private:
  RegularFile(llvm::sys::fs::file_t opened, uint64_t bytes) : opened(opened), bytes(bytes) {}

  llvm::sys::fs::file_t opened;
  uint64_t bytes;
};

/// More than any file that is read whole has; checkpoints are mapped instead.
constexpr uint64_t mostFileBytes = uint64_t(256) << 20;

/// The bytes of a regular file. Error: `PATH: error: cannot read: reason`, for one of more than mostFileBytes too.
Expected<std::string> readFile(StringRef path);

/// The bytes of a text that a user gives: as readFile, but pipes and character devices are read to their end, which
/// must come within mostFileBytes, and - is standard input.
Expected<std::string> readInput(StringRef path);

/// Writes a file completely or not at all: a temporary file beside it, checked for a full disk, then renamed. What is
/// no regular file, such as /dev/stdout, is written as it is. Error: `PATH: error: cannot write: reason`.
Error writeFile(StringRef path, StringRef contents);

/// The same, but leaves what killed processes have left of it: for a directory of many files, a cache, in which whoever
/// opens it looks for leftovers once.
Error replaceFile(StringRef path, StringRef contents);

/// The same without the rename: on an error, or when the process is killed, the file is there in part.
Error writeInPlace(StringRef path, StringRef contents);

/// Lower-case hexadecimal SHA-256 of the bytes.
std::string sha256Hex(StringRef bytes);

} // namespace kiln
