//===- Journal.h - a record of trials that survives an interruption -------===//
#pragma once

#include "tools/tune/Problems.h"

namespace kiln {

/// A file with a line for every finished trial. If the same measurement opens it again, it returns the trials in it.
class TuningJournal {
public:
  /// `heading` identifies a measurement: what is compiled, how, and where it runs. Fills in the trials of a file with
  /// that heading; a file with another heading is overwritten. Error: the file cannot be read or written.
  static Expected<TuningJournal> open(StringRef path, StringRef heading, MutableArrayRef<TuningProblem> problems);

  /// Appends a trial and writes it at once. Error: the file cannot be written.
  Error add(const TuningProblem &problem, const Trial &trial);

  /// The number of trials that the file had.
  size_t resumed() const { return found; }

  /// Removes the file: the measurement is complete.
  Error remove();

private:
  std::string path;
  std::unique_ptr<llvm::raw_fd_ostream> os;
  size_t found = 0;
};

} // namespace kiln
