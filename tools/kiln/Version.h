//===- Version.h - the output of `kiln --version` -------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The commit that the program was built from, with -dirty where the source tree had changes beside it; `unknown` where
/// there was no git repository. Of a file that each build writes: cmake/KilnRevision.cmake.
extern const char *const gitRevision;

/// Version and revision on one line.
std::string programVersion();

/// Version and revision, the CUDA toolkit that the program was built with, and the targets that it compiles for.
std::string versionText();

} // namespace kiln
