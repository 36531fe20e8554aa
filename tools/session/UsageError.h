//===- UsageError.h - a command line that cannot be honoured ----------------===//
//
// What an option asks for can depend on what MODEL is and on which device runs it, so that the libraries behind the
// command line find some wrong command lines. Their errors are of a kind of their own, for which programs exit with 2.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/Diagnostic.h"

namespace kiln {

/// An option that cannot be honoured. The message begins with the option and ends with what to do instead.
class UsageError : public ErrorInfo<UsageError, DiagnosticError> {
public:
  static char ID;
  using ErrorInfo::ErrorInfo;
};

/// `error: message`.
Error makeUsageError(const Twine &message);

/// The same diagnostics, as those of a wrong command line: for what a library says of an option's value. Success stays.
Error asUsageError(Error error);

} // namespace kiln
