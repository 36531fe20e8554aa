//===- RunSession.h - the model and the device of `kiln run` ---------------===//
#pragma once

#include "tools/kiln/OpenDraft.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/RankProcess.h"

namespace kiln {

/// What `kiln run` opens, in two steps, so that prompts are checked before weights are loaded.
struct RunSession {
  std::vector<std::string> devices; ///< as resolved; of several, all do the same work
  EngineOptions onDevice;           ///< of each device
  ModelSource source;
  std::optional<ProgressLine> progress = {}; ///< of compiling kernels
  std::unique_ptr<Device> device = nullptr;  ///< of the draft and its one engine, if there is a draft
  OpenedDraft draft = {};
  std::vector<std::unique_ptr<Engine>> engines = {}; ///< one on each device; none before openDevices

  /// Opens the model's files. Error: a UsageError about an option that the reference executor does not support; errors
  /// of opening the model.
  static Expected<std::unique_ptr<RunSession>> open(const RunCommand &command, Trace *trace, RankGroup *group);

  /// Checks the command's options and prompts for the model. Error: a UsageError about an option; what promptProblem
  /// finds.
  Error check(const RunCommand &command, ArrayRef<std::vector<int32_t>> prompts) const;

  /// Opens the devices, and the draft if there is one.
  Error openDevices(const RunCommand &command);

  /// Ends the work, with its error if there is one, as Engine::finish does.
  Error finish(Error error) const { return engines.empty() ? std::move(error) : engine().finish(std::move(error)); }

  Engine &engine() const { return *engines.front(); }
  /// The models of all engines.
  std::vector<LanguageModel *> models() const;
  const Tokenizer *tokenizer() const { return source.tokenizer ? &*source.tokenizer : nullptr; }
  /// The options that all sequences of the command have.
  SequenceOptions sequenceOptions(const RunCommand &command) const;
  JobOptions jobOptions(const RunCommand &command) const;
};

/// As the temperature falls to 0, sampling becomes greedy, whatever top-k, top-p and min-p are.
SamplingParams settled(const SamplingParams &params);

/// Generates for the lines of --input.
Error runLines(const RunCommand &command, RunSession &session);

/// Continues the lines that the user enters.
Error runInteractive(const RunCommand &command, RunSession &session);

} // namespace kiln
