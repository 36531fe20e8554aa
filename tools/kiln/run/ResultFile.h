//===- ResultFile.h - results as lines, in the order of their requests ----===//
#pragma once

#include "tools/kiln/run/RequestLines.h"

namespace kiln {

/// The output of `kiln run --input`. A result is written as soon as all results in front of it are, at once and with
/// its newline last, so that a file of a killed run has whole lines, of the first requests, and at most one torn line.
/// While the file is open, it is locked (flock) against other processes that run with the same file.
class ResultFile {
public:
  /// A new file; `-` is standard output. It is made by the first result, or by finish(). Error: the file exists and has
  /// something in it, or cannot be written.
  static Expected<ResultFile> create(StringRef path);

  /// Goes on with a file, if there is one: drops a torn last line. Error: a line that is no result of its request, or
  /// more lines than requests; the file cannot be read or written, or another process is writing it.
  static Expected<ResultFile> resume(StringRef path, ArrayRef<LineRequest> requests);

  /// The number of results that a resumed file has.
  size_t resumed() const { return found; }

  /// Takes the result of a request, one line without newline. Error: the file cannot be written, or another process
  /// writes it or has written it since create().
  Error add(size_t request, std::string line);

  /// Ends the work: makes a file that has no results, too. Error: it cannot be written.
  Error finish() { return write(""); }

private:
  explicit ResultFile(StringRef path) : path(path.str()) {}

  Error open();
  Error openNew();
  Error write(StringRef line);

  std::string path;
  std::unique_ptr<llvm::raw_fd_ostream> os; ///< null: standard output, or not opened yet
  size_t found = 0;
  size_t next = 0;                       ///< the request whose result is written next
  std::map<size_t, std::string> waiting; ///< results of later requests
};

} // namespace kiln
