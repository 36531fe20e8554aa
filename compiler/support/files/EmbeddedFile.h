//===- EmbeddedFile.h - files that are part of the program ------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A file of the source tree that is compiled in by cmake/EmbedFiles.cmake, so that the program runs without it.
struct EmbeddedFile {
  StringRef name; ///< relative to the embedded folder
  StringRef text;
};

/// The names and texts of files in one text, of which a hash names their state.
inline std::string textOf(ArrayRef<EmbeddedFile> files) {
  std::string all;
  for (const EmbeddedFile &file : files)
    all += (file.name + "\n" + file.text + "\n").str();
  return all;
}

} // namespace kiln
