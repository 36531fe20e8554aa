//===- Process.h - how a program of this project begins and ends --------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// For main to call first. From then on
/// - a file that the program opens is never taken for a standard stream that was closed when it began, whose reads and
///   writes fail as before;
/// - a reader of standard error that has gone away does not end the program, one of standard output still does;
/// - a file larger than the user's limit is an error of the write that makes it so, as on a full disk, and no signal;
/// - memory or threads that the system refuses are a message, `error: ...`, and exit code 1.
void prepareProcess();

/// Standard output, for results. A terminal is shown control characters instead of obeying them (Printable.h): texts of
/// models and files are not the user's own. Elsewhere every byte stays what it is.
raw_ostream &standardOutput();

/// For main to call last: flushes standard output, prints errors to standard error, of this too, and gives the exit
/// code: `failureCode` if there are any, else `exitCode`. Messages that cannot be written are lost and change nothing:
/// what the program was asked for is done all the same.
int finishProcess(Error error, int exitCode = 0, int failureCode = 1);

/// Ends the program at once with a message and exit code 1: for handlers, which cannot return an error.
[[noreturn]] void endProcess(StringRef message);

} // namespace kiln
