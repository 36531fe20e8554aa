//===- OpenDraft.h - what guesses for `kiln run` ----------------------------===//
#pragma once

#include "tools/kiln/CommandLine.h"
#include "tools/session/Engine.h"

namespace kiln {

/// The most guesses that --draft-tokens may ask for, and those of a pass without it and with auto.
constexpr int64_t mostDraftTokens = 63, usualDraftTokens = 4, mostAutoDraftTokens = 8;

/// A draft, and what it needs.
struct OpenedDraft {
  std::unique_ptr<ModelSource> source; ///< of a model
  std::unique_ptr<Engine> engine;      ///< of a model
  std::unique_ptr<Draft> draft;        ///< null: no speculation
  DraftLength length;
};

/// The model must check guesses: sets the pipeline's draftTokens for a model that is compiled, and adds @verify to the
/// entries, if the command speculates on a device with kernels.
void prepareForDraft(const RunCommand &command, EngineOptions &engine, PipelineChoices &pipeline);

/// Checks that the model can check as many guesses as the command wants, and opens the draft on the same device. Error:
/// a UsageError about a plan without @verify or for fewer guesses; a draft without weights or with another vocabulary;
/// errors of opening a model.
Expected<OpenedDraft> openDraft(const RunCommand &command, const ModelSource &source, const EngineOptions &engine);

} // namespace kiln
