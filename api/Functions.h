//===- Functions.h - the functions of the table, as include/kiln.h describes them ----===//
#pragma once

#include "api/Boundary.h"

namespace kiln::api {

KilnError *compile(const char *model, const char *directory, const KilnCompileOptions *options) noexcept;

KilnError *openModel(const char *path, const KilnModelOptions *options, KilnModel **model) noexcept;
void releaseModel(KilnModel *model) noexcept;
KilnError *modelInfo(const KilnModel *model, KilnModelInfo *info) noexcept;
KilnError *tokenize(const KilnModel *model, const char *text, size_t length, int32_t special, int32_t *tokens,
                    size_t capacity, size_t *count) noexcept;
KilnError *detokenize(const KilnModel *model, const int32_t *tokens, size_t count, char *text, size_t capacity,
                      size_t *length) noexcept;

KilnError *openSession(KilnModel *model, const KilnSessionOptions *options, KilnSession **session) noexcept;
void releaseSession(KilnSession *session) noexcept;
KilnError *prefill(KilnSession *session, const KilnTokens *prompts, size_t rows) noexcept;
KilnError *decode(KilnSession *session, const int32_t *tokens, size_t rows) noexcept;
KilnError *logits(KilnSession *session, size_t row, const float **logits) noexcept;
KilnError *logProbabilities(KilnSession *session, size_t row, float *logProbabilities, size_t capacity) noexcept;
KilnError *score(KilnSession *session, const int32_t *tokens, size_t count, double *logProbabilities) noexcept;
KilnError *generate(KilnSession *session, const KilnTokens *prompts, size_t count, const KilnGenerateOptions *options,
                    KilnGenerations **generations) noexcept;

size_t generationCount(const KilnGenerations *generations) noexcept;
KilnError *generation(const KilnGenerations *generations, size_t index, KilnGeneration *generation) noexcept;
KilnError *generationLogits(const KilnGenerations *generations, size_t index, size_t token,
                            const float **logits) noexcept;
KilnError *generationLogProbabilities(const KilnGenerations *generations, size_t index, float *logProbabilities,
                                      size_t capacity) noexcept;
void releaseGenerations(KilnGenerations *generations) noexcept;

KilnError *createCancellation(KilnCancellation **cancellation) noexcept;
void cancel(KilnCancellation *cancellation) noexcept;
void releaseCancellation(KilnCancellation *cancellation) noexcept;

KilnError *describePlan(const char *directory, const KilnPlanOptions *options, KilnText **json) noexcept;
KilnError *describeIr(const char *name, const char *text, size_t length, KilnText **json) noexcept;
const char *textData(const KilnText *text, size_t *length) noexcept;
void releaseText(KilnText *text) noexcept;

} // namespace kiln::api
