//===- EmbeddedFile.h - files that are part of the program ------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A file of the source tree that is compiled in by cmake/EmbedFiles.cmake, so that the program runs without it.
struct EmbeddedFile {
  StringRef name; ///< relative to the embedded folder
  StringRef text;
};

} // namespace kiln
