#include "api/Boundary.h"

#include "tools/session/UsageError.h"

#include <cmath>
#include <new>

namespace kiln::api {

char MisuseError::ID = 0;
char BusyError::ID = 0;

template <class Kind> static Error makeKind(const Twine &message) {
  return llvm::make_error<Kind>(
      std::vector<Diagnostic>{Diagnostic(Diagnostic::Severity::Error, Location(), message.str())});
}

Error makeMisuse(const Twine &message) { return makeKind<MisuseError>(message); }
Error makeBusy(const Twine &message) { return makeKind<BusyError>(message); }

Error expectGiven(const void *argument, StringRef name) {
  return argument ? Error::success() : makeMisuse(name + ": expected a pointer, got NULL");
}

Error expectArray(const void *array, size_t count, StringRef name) {
  return array || count == 0 ? Error::success()
                             : makeMisuse(name + ": expected a pointer to " + Twine(count) + " elements, got NULL");
}

static int32_t codeOf(const Error &error) {
  if (error.isA<MisuseError>())
    return KilnErrorMisuse;
  if (error.isA<BusyError>())
    return KilnErrorBusy;
  return error.isA<UsageError>() ? KilnErrorUsage : KilnErrorFailed;
}

KilnError *toHandle(Error error) {
  if (!error)
    return nullptr;
  int32_t code = codeOf(error);
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    diagnostic.print(os);
  return new KilnError{code, StringRef(text).rtrim('\n').str()};
}

/// Made beforehand: there may be no memory left for them. Their texts are too short to need any.
static KilnError outOfMemory{KilnErrorOutOfMemory, "out of memory"};
static KilnError unknownException{KilnErrorInternal, "exception"};

KilnError *exceptionHandle() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return &outOfMemory;
  } catch (const std::exception &exception) {
    try {
      return new KilnError{KilnErrorInternal, std::string("error: exception: ") + exception.what()};
    } catch (...) {
      return &outOfMemory;
    }
  } catch (...) {
    return &unknownException;
  }
}

void releaseError(KilnError *error) noexcept {
  if (error != &outOfMemory && error != &unknownException)
    delete error;
}

Error checkSize(size_t given, size_t own, size_t least, StringRef initialiser) {
  if (given >= least && given <= own)
    return Error::success();
  return makeMisuse("size: expected from " + Twine(least) + " to " + Twine(own) + " bytes, got " + Twine(given) +
                    "; initialise the structure with " + initialiser);
}

Expected<std::vector<std::vector<int32_t>>> copyPrompts(const KilnTokens *prompts, size_t count) {
  if (Error error = expectArray(prompts, count, "prompts"))
    return error;
  std::vector<std::vector<int32_t>> copies;
  for (const KilnTokens &prompt : ArrayRef(prompts, count)) {
    if (Error error = expectArray(prompt.ids, prompt.count, ("prompt " + Twine(copies.size() + 1)).str()))
      return error;
    copies.push_back(idsOf(prompt).vec());
  }
  return copies;
}

Expected<std::vector<std::string>> copyTexts(const char *const *texts, size_t count, StringRef name) {
  if (Error error = expectArray(texts, count, name))
    return error;
  std::vector<std::string> copies;
  for (const char *text : ArrayRef(texts, count)) {
    if (Error error = expectGiven(text, name))
      return error;
    copies.emplace_back(text);
  }
  return copies;
}

void logSoftmax(ArrayRef<float> logits, MutableArrayRef<float> logProbabilities) {
  double largest = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - largest);
  double shift = largest + std::log(sum);
  for (auto [logit, out] : llvm::zip(logits, logProbabilities))
    out = static_cast<float>(logit - shift);
}

} // namespace kiln::api
