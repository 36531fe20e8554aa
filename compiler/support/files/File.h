//===- File.h - reading whole files, writing them atomically ----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A regular file that is open for reading and closed with this object. Other files are errors: a device may have no
/// end, and a pipe keeps its reader waiting.
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

/// The size limit of files that are read whole; it is far above their usual size. Checkpoints are mapped instead.
constexpr uint64_t mostFileBytes = uint64_t(256) << 20;

/// The bytes of a regular file. Error: `PATH: error: cannot read: reason`, also for a file of more than mostFileBytes.
Expected<std::string> readFile(StringRef path);

/// The bytes of a text that the user names: like readFile, but pipes and character devices are read to their end, which
/// must come within mostFileBytes, and - means standard input.
Expected<std::string> readInput(StringRef path);

/// The name of such a text in messages: the path, or `standard input`.
StringRef inputName(StringRef path);

/// Writes a file completely or not at all: writes a temporary file beside it, checks for a full disk, and renames it.
/// Of a link, this is done with its target. A file that is not regular, such as a device, is written in place. Error:
/// `PATH: error: cannot write: reason`.
Error writeFile(StringRef path, StringRef contents);

/// Like writeFile, but does not look for leftovers of killed processes. For a cache with many files, which is swept
/// once when it is opened.
Error replaceFile(StringRef path, StringRef contents);

/// Like writeFile, but without the rename: after an error or a kill, the file may be incomplete.
Error writeInPlace(StringRef path, StringRef contents);

/// Checks that writeFile can write there, before work whose result would be lost. Changes nothing. Error: as writeFile.
Error checkWritable(StringRef path);

/// Writes a file's contents, in pieces.
using WriteContents = function_ref<Error(raw_ostream &os)>;

/// Like the functions above, for contents that are too large for memory. An error of `write` is returned, too.
Error writeFile(StringRef path, WriteContents write);
Error writeInPlace(StringRef path, WriteContents write);

/// The SHA-256 of the bytes in lower-case hexadecimal.
std::string sha256Hex(StringRef bytes);

} // namespace kiln
