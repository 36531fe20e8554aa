//===- DeviceSampler.h - steps of generation that need no host --------------===//
//
// Token, position, sampling state and stop conditions of every row lie in the device's memory, where the plan's @sample
// carries them from step to step (templates/sample/). So a step of decoding is one graph launch, and the host reads the
// tokens from a ring in its own memory, some steps behind.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/PrefillCall.h"

namespace kiln {

/// Rows here are places in the device's batch. The executor must outlive the sampler, and be called by nobody else
/// while rows are in use.
class DeviceSampler {
public:
  /// Allocates for the executor's whole batch; nothing is allocated later but graphs. The plan must have the entry
  /// sample.
  static Expected<std::unique_ptr<DeviceSampler>> create(Executor &executor);

  /// What holds for all rows until the next call; forgets what rows there were.
  Error configure(const StreamOptions &options);

  /// Evaluates prompts for rows firstRow, firstRow + 1, ..., and chooses a token for each. `sequences` are the indices
  /// of the rows' random numbers, `steps` how many tokens each has chosen before, of options.maxNewTokens.
  Error prefill(int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts, ArrayRef<uint64_t> sequences,
                ArrayRef<uint64_t> steps);

  /// Makes the graph of a step of `rows` rows if there is none.
  Error prepareStep(int64_t rows);
  /// Decodes the last tokens of the first `rows` rows, and chooses the next.
  Error step(int64_t rows);

  /// Row `to` becomes a copy of row `from`, which is used no more.
  Error moveRow(int64_t from, int64_t to);

  /// Number of the last choice for a row that was asked for.
  uint32_t lastChoice(int64_t row) const { return choices[row]; }
  /// Waits for a choice, one of the row's last few, and returns the token. Error: what went wrong on the device; logits
  /// that are not finite; something that is no token, as of a row that has ended.
  Expected<int32_t> token(int64_t row, uint32_t choice);

private:
  explicit DeviceSampler(Executor &executor)
      : executor(executor), device(executor.device()), names(*executor.plan().entries.sample) {}

  Error allocate();
  Executor::Call sampleCall(int64_t firstRow, int64_t rows, char *logits) const;
  Error setRows(int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts, ArrayRef<uint64_t> sequences,
                ArrayRef<uint64_t> steps);
  char *rowOf(StringRef tensor, int64_t row) const;

  Executor &executor;
  Device &device;
  const SampleEntry names; ///< of the arguments of @sample
  StreamOptions options;
  std::map<std::string, DeviceMemory, std::less<>> memory; ///< of @sample's arguments, by name
  std::map<std::string, int64_t, std::less<>> rowBytes;    ///< of each
  std::map<std::string, char *, std::less<>> decodeInputs; ///< @decode's arguments, which @sample writes
  int64_t ringEntries = 0;                                 ///< a row
  std::vector<uint32_t> choices;                           ///< by row
  std::map<int64_t, std::unique_ptr<DeviceGraph>> graphs;  ///< of a step, by rows
};

} // namespace kiln
