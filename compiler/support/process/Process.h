//===- Process.h - the start and the end of a program ---------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Prepares the process; main calls it first. From then on
/// - a file that the program opens never takes the number of a standard stream that was closed at the start; reading or
/// writing that stream still fails;
/// - the program goes on if the reader of standard error goes away, but ends if the reader of standard output does;
/// - exceeding the user's limit on file sizes is an error of the write, as on a full disk, and not a signal;
/// - if the system refuses memory or threads, the program prints `error: ...` and exits with code 1.
void prepareProcess();

/// Standard output, for results. A terminal is sent escapes for control characters (Printable.h), since models and
/// files may come from others. Elsewhere every byte is written as it is.
raw_ostream &standardOutput();

/// For results that come while much work is still to be done. Error: this or an earlier write failed, such as on a full
/// disk or a closed pipe; it is reported once.
Error flushStandardOutput();

/// Ends main: flushes standard output, prints errors, also of the flush, to standard error, and returns the exit code:
/// `failureCode` if there were errors, else `exitCode`. Messages that cannot be written are lost, and do not change the
/// exit code: the work was done.
int finishProcess(Error error, int exitCode = 0, int failureCode = 1);

/// Ends the program at once with a message and exit code 1. For handlers, which cannot return an error.
[[noreturn]] void endProcess(StringRef message);

} // namespace kiln
