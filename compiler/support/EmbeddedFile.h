//===- EmbeddedFile.h - files that are part of the program ------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A file of the source tree, compiled in by cmake/EmbedFiles.cmake so that a program needs no files beside it.
struct EmbeddedFile {
  StringRef name; ///< relative to the embedded folder
  StringRef text;
};

} // namespace kiln
