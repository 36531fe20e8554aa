#include "api/Functions.h"
#include "api/Handles.h"

namespace kiln::api {

size_t generationCount(const KilnGenerations *generations) noexcept {
  return generations ? generations->all.size() : 0;
}

static Expected<const Generation *> find(const KilnGenerations *generations, size_t index) {
  if (Error error = expectGiven(generations, "generations"))
    return error;
  if (index >= generations->all.size())
    return makeMisuse("index: expected one of " + Twine(generations->all.size()) + " generations, got " + Twine(index));
  return &generations->all[index];
}

/// The same, with logits. Error: they were not kept.
static Expected<const Generation *> findWithLogits(const KilnGenerations *generations, size_t index) {
  Expected<const Generation *> found = find(generations, index);
  if (found && (*found)->logits.size() != (*found)->newTokens.size())
    return makeMisuse("logits: expected a call of generate with keepLogits, got one without");
  return found;
}

KilnError *generation(const KilnGenerations *generations, size_t index, KilnGeneration *to) noexcept {
  return guarded([&]() -> Error {
    Expected<const Generation *> found = find(generations, index);
    if (!found)
      return found.takeError();
    static constexpr int32_t reasons[] = {KilnFinishLength, KilnFinishStop, KilnFinishEos, KilnFinishCancelled};
    const Generation &from = **found;
    KilnGeneration result = KILN_GENERATION;
    result.tokens = from.newTokens.data();
    result.tokenCount = from.newTokens.size();
    result.text = from.text.c_str();
    result.textLength = from.text.size();
    result.finishReason = reasons[static_cast<size_t>(from.finishReason)];
    result.promptMs = from.promptMs;
    result.tokenMs = from.tokenMs.data();
    return writeResult(result, to, "generation", "KILN_GENERATION");
  });
}

KilnError *generationLogits(const KilnGenerations *generations, size_t index, size_t token,
                            const float **out) noexcept {
  return guarded([&]() -> Error {
    if (Error error = expectGiven(out, "logits"))
      return error;
    Expected<const Generation *> found = findWithLogits(generations, index);
    if (!found)
      return found.takeError();
    if (token >= (*found)->logits.size())
      return makeMisuse("token: expected one of " + Twine((*found)->logits.size()) + " new tokens, got " +
                        Twine(token));
    *out = (*found)->logits[token].data();
    return Error::success();
  });
}

KilnError *generationLogProbabilities(const KilnGenerations *generations, size_t index, float *out,
                                      size_t capacity) noexcept {
  return guarded([&]() -> Error {
    Expected<const Generation *> found = findWithLogits(generations, index);
    if (!found)
      return found.takeError();
    const Generation &from = **found;
    if (Error error = expectArray(out, capacity, "logProbabilities"))
      return error;
    if (capacity < from.newTokens.size())
      return makeMisuse("capacity: expected at least " + Twine(from.newTokens.size()) + ", got " + Twine(capacity));
    for (auto [i, row] : llvm::enumerate(from.logits)) {
      std::vector<float> all(row.size());
      logSoftmax(row, all);
      out[i] = all[static_cast<size_t>(from.newTokens[i])];
    }
    return Error::success();
  });
}

void releaseGenerations(KilnGenerations *generations) noexcept { delete generations; }

KilnError *createCancellation(KilnCancellation **cancellation) noexcept {
  return guarded([&]() -> Error {
    if (Error error = expectGiven(cancellation, "cancellation"))
      return error;
    *cancellation = nullptr;
    *cancellation = new KilnCancellation;
    return Error::success();
  });
}

void cancel(KilnCancellation *cancellation) noexcept {
  static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers may cancel");
  if (cancellation)
    cancellation->isCancelled = true;
}

void releaseCancellation(KilnCancellation *cancellation) noexcept { delete cancellation; }

} // namespace kiln::api
