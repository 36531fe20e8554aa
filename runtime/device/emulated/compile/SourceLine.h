//===- SourceLine.h - the line of a machine instruction -----------------------------===//
#pragma once

#include "runtime/device/emulated/Launch.h"

namespace kiln {

/// A line of a template or a generated kernel; `line` is 0 if it is not known.
struct SourceLine {
  std::string file;
  unsigned line = 0;
};

/// The line of the call that returns to `code`, in the kernel's library. If calls are inlined there, it is the
/// innermost line outside the primitives of templates/device/. Runs addr2line, which comes with every C++ compiler.
SourceLine sourceLineOf(const void *code, const EmulatedKernel &kernel);

} // namespace kiln
