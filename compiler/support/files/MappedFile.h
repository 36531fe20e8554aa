//===- MappedFile.h - a file's bytes without reading it -----------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A whole regular file, mapped for reading as long as the object lives.
class MappedFile {
public:
  /// Error: `PATH: error: cannot read: reason`.
  static Expected<MappedFile> open(StringRef path);

  const std::string &path() const { return filePath; }
  ArrayRef<uint8_t> bytes() const;

private:
  explicit MappedFile(StringRef path) : filePath(path) {}

  std::string filePath;
  llvm::sys::fs::mapped_file_region mapping; ///< unmapped for an empty file, which systems refuse to map
};

} // namespace kiln
