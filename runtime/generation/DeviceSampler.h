//===- DeviceSampler.h - sampling on the device ---------------------------===//
//
// The token, position, sampling state and stop conditions of every row lie in the device's memory. The plan's @sample
// updates them from step to step (templates/sample/), so a decode step is one graph launch. The host reads the tokens,
// some steps behind, from a ring buffer in its own memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/PrefillCall.h"

namespace kiln {

/// Rows here are places in the device's batch. The executor must outlive the sampler, and nothing else may call it
/// while rows are in use.
class DeviceSampler {
public:
  /// Allocates memory for the executor's whole batch; only graphs are allocated later. The plan must have the entry
  /// sample.
  static Expected<std::unique_ptr<DeviceSampler>> create(Executor &executor);

  /// Drops all rows.
  Error reset();

  /// Starts rows firstRow, firstRow + 1, ...: evaluates their tokens, and chooses one for each. Waits for nothing.
  Error prefill(int64_t firstRow, ArrayRef<RowStart> starts);

  /// Makes the graph of a step of `rows` rows unless it exists.
  Error prepareStep(int64_t rows);
  /// Decodes the last tokens of the first `rows` rows, and chooses the next ones.
  Error step(int64_t rows);

  /// Copies row `from` to row `to`; `from` is not used afterwards.
  Error moveRow(int64_t from, int64_t to);

  /// Number of the last choice that was enqueued for a row.
  uint32_t lastChoice(int64_t row) const { return choices[row]; }
  /// Waits for one of the row's last few choices and returns the token. Error: a failure on the device; logits that are
  /// not finite; a value that is no token, as a row that has ended gives.
  Expected<int32_t> token(int64_t row, uint32_t choice);

private:
  explicit DeviceSampler(Executor &executor)
      : executor(executor), device(executor.device()), names(*executor.plan().entries.sample) {}

  Error allocate();
  Executor::Call sampleCall(int64_t firstRow, int64_t rows, char *logits) const;
  template <class T> Error uploadRows(StringRef tensor, int64_t firstRow, ArrayRef<T> values);
  Error setRows(int64_t firstRow, ArrayRef<RowStart> starts);
  char *rowOf(StringRef tensor, int64_t row) const;

  Executor &executor;
  Device &device;
  const SampleEntry names;                                 ///< the arguments of @sample
  std::map<std::string, DeviceMemory, std::less<>> memory; ///< of @sample's arguments, by name
  std::map<std::string, int64_t, std::less<>> rowBytes;    ///< of each argument, by name
  std::map<std::string, char *, std::less<>> decodeInputs; ///< @decode's arguments, which @sample writes
  int64_t ringEntries = 0;                                 ///< per row
  std::vector<uint32_t> choices;                           ///< by row
  std::map<int64_t, std::unique_ptr<DeviceGraph>> graphs;  ///< graphs of a step, by number of rows
};

} // namespace kiln
