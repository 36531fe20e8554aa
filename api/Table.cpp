// The table that libkiln exports, in the order of include/kiln.h.
#include "api/Functions.h"

#include "support/Version.h"

namespace kiln::api {

static int32_t errorCode(const KilnError *error) noexcept { return error ? error->code : KilnOk; }
static const char *errorMessage(const KilnError *error) noexcept { return error ? error->message.c_str() : ""; }

static const char *libraryVersion() noexcept { return compilerVersion; }

static constexpr KilnApi table = {
    KILN_API_VERSION,
    0,
    sizeof(KilnApi),
    errorCode,
    errorMessage,
    releaseError,
    libraryVersion,
    compile,
    openModel,
    releaseModel,
    modelInfo,
    tokenize,
    detokenize,
    openSession,
    releaseSession,
    prefill,
    decode,
    logits,
    logProbabilities,
    score,
    generate,
    generationCount,
    generation,
    generationLogits,
    generationLogProbabilities,
    releaseGenerations,
    createCancellation,
    cancel,
    releaseCancellation,
    describePlan,
    describeIr,
    textData,
    releaseText,
};

} // namespace kiln::api

const KilnApi *kilnGetApi(uint32_t version) {
  bool isKnown = version >= 1 && version <= KILN_API_VERSION;
  return isKnown ? &kiln::api::table : nullptr;
}
