//===- Boundary.h - between C and C++ -----------------------------------------===//
//
// What every function of the table needs: errors as handles, no exceptions, structures of other versions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln.h"

#include "support/Diagnostic.h"

#include <cstring>

struct KilnError {
  int32_t code;
  std::string message;
};

namespace kiln::api {

/// An error with the code KilnErrorMisuse.
class MisuseError : public ErrorInfo<MisuseError, DiagnosticError> {
public:
  static char ID;
  using ErrorInfo::ErrorInfo;
};

/// An error with the code KilnErrorBusy.
class BusyError : public ErrorInfo<BusyError, DiagnosticError> {
public:
  static char ID;
  using ErrorInfo::ErrorInfo;
};

Error makeMisuse(const Twine &message);
Error makeBusy(const Twine &message);

/// Refuses NULL. `name` is the argument's.
Error expectGiven(const void *argument, StringRef name);
/// Refuses NULL in place of an array that is not empty.
Error expectArray(const void *array, size_t count, StringRef name);

/// The error as a handle for the caller; NULL for success.
KilnError *toHandle(Error error);
/// The exception that is being handled, as a handle.
KilnError *exceptionHandle() noexcept;
/// As in the table.
void releaseError(KilnError *error) noexcept;

/// Runs a function's work, which returns an Error. No exception leaves it.
template <class Work> KilnError *guarded(Work work) noexcept {
  try {
    return toHandle(work());
  } catch (...) {
    return exceptionHandle();
  }
}

/// Checks the size that a caller gives a structure. `initialiser` is the macro that sets it.
Error checkSize(size_t given, size_t own, size_t least, StringRef initialiser);

/// The caller's options; fields that its version of the header does not have keep the default.
template <class Options>
Expected<Options> readOptions(const Options *given, const Options &defaults, StringRef initialiser) {
  Options options = defaults;
  if (!given)
    return options;
  if (Error error = checkSize(given->size, sizeof(Options), sizeof(given->size), initialiser))
    return error;
  std::memcpy(&options, given, given->size);
  return options;
}

/// Writes the fields that the caller's version of the header has.
template <class Result> Error writeResult(const Result &result, Result *to, StringRef name, StringRef initialiser) {
  if (Error error = expectGiven(to, name))
    return error;
  size_t size = to->size;
  if (Error error = checkSize(size, sizeof(Result), sizeof(to->size), initialiser))
    return error;
  std::memcpy(to, &result, size);
  to->size = size;
  return Error::success();
}

/// Token ids of the caller.
inline ArrayRef<int32_t> idsOf(const KilnTokens &tokens) { return {tokens.ids, tokens.count}; }
/// Copies prompts. Error: a missing array.
Expected<std::vector<std::vector<int32_t>>> copyPrompts(const KilnTokens *prompts, size_t count);

/// Text that may be missing.
inline std::optional<std::string> optionalText(const char *text) {
  return text ? std::optional<std::string>(text) : std::nullopt;
}
/// A list of texts. Error: a missing text.
Expected<std::vector<std::string>> copyTexts(const char *const *texts, size_t count, StringRef name);

/// The natural logarithms of the probabilities that softmax makes of logits, one for each.
void logSoftmax(ArrayRef<float> logits, MutableArrayRef<float> logProbabilities);

} // namespace kiln::api
