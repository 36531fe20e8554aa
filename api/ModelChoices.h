//===- ModelChoices.h - what options of compiling and of opening have in common ----===//
#pragma once

#include "api/Boundary.h"

#include "tools/session/ModelOptions.h"

namespace kiln::api {

/// dtype, matmul, decode, strategy, tuning and batchInvariant. Error: a UsageError, or a misuse.
template <class Options> Expected<PipelineChoices> readChoices(const Options &options) {
  PipelineChoices choices;
  choices.dtype = optionalText(options.dtype);
  choices.matmul = optionalText(options.matmul);
  choices.decode = optionalText(options.decode);
  choices.strategy = optionalText(options.strategy);
  choices.tuning = optionalText(options.tuning);
  if (Error error = checkWords(choices))
    return error;
  if (options.batchInvariant < 0 || options.batchInvariant > mostBatchInvariant)
    return makeMisuse("batchInvariant: expected 0 to " + Twine(mostBatchInvariant) + ", got " +
                      Twine(options.batchInvariant));
  if (options.batchInvariant > 0)
    choices.batchInvariant = options.batchInvariant;
  return choices;
}

/// The caller's callback, which gets `what` with a zero behind it; empty if there is none.
template <class Options>
std::function<void(size_t done, size_t all, StringRef what)> progressCallback(const Options &options) {
  if (!options.onProgress)
    return {};
  return [call = options.onProgress, user = options.user](size_t done, size_t all, StringRef what) {
    call(user, done, all, what.str().c_str());
  };
}

/// Checks a number of sequences.
inline Error checkBatch(StringRef name, int64_t batch) {
  return batch >= 1 && batch <= mostSequences
             ? Error::success()
             : makeMisuse(name + ": expected 1 to " + Twine(mostSequences) + " sequences, got " + Twine(batch));
}

} // namespace kiln::api
