#include "tools/session/UsageError.h"

namespace kiln {

char UsageError::ID;

Error makeUsageError(const Twine &message) { return asUsageError(makeError(message)); }

Error asUsageError(Error error) {
  if (!error)
    return error;
  return llvm::make_error<UsageError>(takeDiagnostics(std::move(error)));
}

} // namespace kiln
