//===- Program.h - running another program --------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// What a program returned, and what it wrote to both of its outputs.
struct Finished {
  int status;
  std::string output;
};

/// Runs the program at a path and waits for it. `temporaries`: the directory where it puts its temporary files, $TMPDIR
/// for it; empty: as for this program. Error: no memory for the output. A program that cannot be started has a negative
/// status, and the reason as its output.
Expected<Finished> runProgram(StringRef program, ArrayRef<std::string> arguments, StringRef temporaries = {});

} // namespace kiln
