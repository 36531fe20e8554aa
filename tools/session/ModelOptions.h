//===- ModelOptions.h - options for compiling a model and for its weights ---===//
#pragma once

#include "passes/Pipeline.h"
#include "plan/Plan.h"

namespace kiln {

/// The most sequences at once, of a plan, of lines, of windows of a text and of samples of a prompt, and the most that
/// `kiln compare` lets a model write.
constexpr int64_t mostSequences = 4096;

/// The user's options for compiling a model. An option that was not given has the pipeline's default; one that was
/// given is honoured or refused.
struct PipelineChoices {
  std::optional<std::string> dtype = {};      ///< as assign-precision takes it
  std::optional<std::string> matmul = {};     ///< as select-kernels takes it
  std::optional<std::string> decode = {};     ///< as PipelineOptions has it
  std::optional<std::string> strategy = {};   ///< as applyStrategies takes it
  std::optional<std::string> tuning = {};     ///< as choose-tiles takes it
  std::optional<int64_t> batchInvariant = {}; ///< as choose-tiles takes it
  std::optional<int64_t> draftTokens = {};    ///< the most guesses that @verify checks
  std::optional<int64_t> ranks = {};          ///< GPUs among which tensors are split
};

/// What dtype, matmul and decode may be.
ArrayRef<StringRef> dtypeWords();
ArrayRef<StringRef> matmulWords();
ArrayRef<StringRef> decodeWords();

/// Checks that these are such words; the command line has done that. Error: a UsageError.
Error checkWords(const PipelineChoices &choices);

/// How to get a model's weights.
struct WeightOptions {
  std::string path;                   ///< --weights: a directory, or a model in one file
  std::optional<uint64_t> randomSeed; ///< --random-weights
};

/// Whether the path is a directory with a plan.
bool isPlan(StringRef path);

/// Refuses a plan if the command compiles. Error: a UsageError.
Error checkIsModel(StringRef command, StringRef model);

/// The pipeline options that these command line options mean. Error: a UsageError, as applyStrategies reports.
Expected<PipelineOptions> pipelineOptions(const PipelineChoices &choices);

/// Refuses all of these options for a plan, because it is already compiled. Error: a UsageError about the first option
/// that was given.
Error checkForPlan(const PipelineChoices &choices, const Plan &plan, StringRef path);

/// Refuses options that IR text cannot honour: its dtypes and its fusion are fixed, and so are its kernels if it has
/// any. Error: a UsageError about the first such option. `module` is the text's.
Error checkForText(const PipelineChoices &choices, const Module &module, StringRef path);

/// Refuses all of these options beside passes that the user gives in place of the usual ones. Error: a UsageError about
/// the first option that was given.
Error checkForPasses(const PipelineChoices &choices);

/// `WHAT: the reference executor … DOES; use …`: a UsageError about an option that needs another device. `does` is the
/// reason.
Error makeReferenceError(const Twine &what, const Twine &does);

/// Refuses options that the reference executor cannot honour: it runs no kernels and computes in fp32. Error: a
/// UsageError about the first such option, or an error of applyStrategies.
Error checkForReference(const PipelineChoices &choices);

} // namespace kiln
