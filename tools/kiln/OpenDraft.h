//===- OpenDraft.h - what guesses tokens for `kiln run` and `kiln bench` -----===//
#pragma once

#include "tools/kiln/CommandLine.h"
#include "tools/session/Engine.h"

namespace kiln {

/// The guesses of a pass without --draft-tokens, and the most with auto: with the last token these are eight, and a
/// product of eight rows takes hardly longer than one of a single row.
constexpr int64_t usualDraftTokens = 4, mostAutoDraftTokens = 7;

/// What a command wants of a draft.
struct DraftRequest {
  DraftOptions options;                  ///< without `what`: no draft
  std::string model;                     ///< that is to check guesses, as the user named it
  std::optional<std::string> dtype = {}; ///< of a draft that is compiled
  SamplingParams sampling;
  std::optional<uint64_t> randomSeed; ///< of weights for a draft that has none; not set: it must have some

  /// The guesses of a pass; those of a plan are at most as many as it can check.
  DraftLength length() const;
};

/// A draft, and what it needs.
struct OpenedDraft {
  std::unique_ptr<ModelSource> source; ///< of a model
  std::unique_ptr<Engine> engine;      ///< of a model
  std::unique_ptr<Draft> draft;        ///< null: no speculation
  DraftLength length;
};

/// The model must check guesses: sets the pipeline's draftTokens for a model that is compiled, and adds @verify to the
/// entries, if the command speculates on a device with kernels.
void prepareForDraft(const DraftRequest &request, EngineOptions &engine, PipelineChoices &pipeline);

/// Checks that the model can check as many guesses as the command wants, and opens the draft on the same device. Error:
/// a UsageError about a plan without @verify or for fewer guesses; a draft without weights or with another vocabulary;
/// errors of opening a model.
Expected<OpenedDraft> openDraft(const DraftRequest &request, const ModelSource &source, const EngineOptions &engine);

} // namespace kiln
