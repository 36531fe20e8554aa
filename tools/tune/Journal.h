//===- Journal.h - trials that survive an interruption ------------------------===//
#pragma once

#include "tools/tune/Problems.h"

namespace kiln {

/// A file with a line for every finished trial. Opened again by the same measurement it gives back what is there.
class TuningJournal {
public:
  /// `heading` tells one measurement from another: what is compiled, how, and where it runs. Fills in the trials that a
  /// file with that heading has; one with another is begun anew. Error: the file cannot be read or written.
  static Expected<TuningJournal> open(StringRef path, StringRef heading, MutableArrayRef<TuningProblem> problems);

  /// Appends a trial, at once. Error: the file cannot be written.
  Error add(const TuningProblem &problem, const Trial &trial);

  /// How many trials the file had.
  size_t resumed() const { return found; }

  /// Removes the file: the measurement is complete.
  Error remove();

private:
  std::string path;
  std::unique_ptr<llvm::raw_fd_ostream> os;
  size_t found = 0;
};

} // namespace kiln
