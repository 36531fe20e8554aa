//===- UsageError.h - errors of the command line --------------------------===//
//
// Whether an option can be honoured may depend on MODEL and on the device that runs it, so libraries, too, find errors
// of the command line. These errors have their own type, for which programs exit with 2.
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

/// Turns diagnostics that a library reports about an option's value into usage errors. Success stays success.
Error asUsageError(Error error);

} // namespace kiln
