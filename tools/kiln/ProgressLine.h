//===- ProgressLine.h - `[37/52] what` on standard error --------------------===//
#pragma once

#include "support/text/Printable.h"

namespace kiln {

/// On a terminal one line that is written over; in a log a line for each step.
class ProgressLine {
public:
  explicit ProgressLine(bool isQuiet) : isQuiet(isQuiet) {}
  ~ProgressLine() { finish(); }

  void show(size_t done, size_t all, StringRef what) {
    if (isQuiet)
      return;
    raw_ostream &os = llvm::errs();
    if (isTerminal)
      os << "\r\x1b[K";
    os << '[' << done << '/' << all << "] " << printable(what) << (isTerminal ? "" : "\n");
    isShown = true;
  }

  /// Clears the line on a terminal.
  void finish() {
    if (isShown && isTerminal)
      llvm::errs() << "\r\x1b[K";
    isShown = false;
  }

private:
  bool isQuiet;
  bool isTerminal = llvm::sys::Process::StandardErrIsDisplayed();
  bool isShown = false;
};

} // namespace kiln
