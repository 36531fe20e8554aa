//===- Program.h - running another program --------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The exit status of a program, and the text of both of its outputs.
struct Finished {
  int status;
  std::string output;
};

/// Runs the program at a path and waits for it. `temporaries` is the directory for the program's temporary files, its
/// $TMPDIR; empty: the same as this program's. Error: no memory for the output. A program that cannot be started has a
/// negative status, and the reason as its output.
Expected<Finished> runProgram(StringRef program, ArrayRef<std::string> arguments, StringRef temporaries = {});

} // namespace kiln
