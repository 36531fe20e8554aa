//===- DeviceSampler.h - sampling on the device ---------------------------===//
//
// The token, position, sampling state and stop conditions of every row lie in the device's memory. The plan's @sample
// updates them from step to step (templates/sample/), so a decode step is one graph launch; with speculation, @accept
// does so from pass to pass (templates/speculate/). The host reads the tokens, some steps behind, from a ring buffer in
// its own memory.
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

  Executor &executor() const { return theExecutor; }

  /// Drops all rows.
  Error reset();

  /// Starts rows firstRow, firstRow + 1, ...: evaluates their tokens, and chooses one for each. Waits for nothing.
  Error prefill(int64_t firstRow, ArrayRef<RowStart> starts);
  /// Only evaluates the tokens, and sets the rows' settings.
  Error hold(int64_t firstRow, ArrayRef<RowStart> starts);
  /// Tells the device the tokens of started rows: for guesses from the text.
  Error uploadText(int64_t firstRow, ArrayRef<RowStart> starts);

  /// Makes the graph of the next step of `rows` rows unless it exists.
  Error prepareStep(int64_t rows);
  /// Decodes the last tokens of the first `rows` rows, and chooses the next ones: stepTokens(rows) choices for each
  /// row, of which those behind the row's end are none.
  Error step(int64_t rows);
  /// 1, or the tokens of a launch of @generate, if it takes so many rows.
  int64_t stepTokens(int64_t rows) const { return theExecutor.plan().generates(rows) ? tokensOfLaunch : 1; }

  /// Copies row `from` to row `to`; `from` is not used afterwards.
  Error moveRow(int64_t from, int64_t to);

  /// Number of the last choice that was enqueued for a row.
  uint32_t lastChoice(int64_t row) const { return choices[row]; }
  /// Takes note that so many choices have been enqueued for each of the first `rows` rows.
  void noteChoices(int64_t rows, int64_t count);
  /// Waits for one of the row's last few choices and returns the token, or idleRow if none was chosen. Error: a failure
  /// on the device; logits that are not finite; a value that is no token.
  Expected<int32_t> token(int64_t row, uint32_t choice);

  // For graphs of passes, which have launches of several functions.

  /// The tokens of a row in a pass; 1 if the executor was not made for passes.
  int64_t passTokens() const { return tokensOfPass; }
  /// The launches of a function that works on the state of the rows, for the first `rows` of them; or of @decode or
  /// @verify. `others` are arguments that are not this sampler's. @sample reads the logits of @decode.
  Expected<std::vector<KernelLaunch>> launches(Entry entry, int64_t rows, ArrayRef<Executor::Binding> others = {});
  /// The memory of an argument of these functions, by the name that the plan has for it.
  char *memoryOf(StringRef argument) const { return rowOf(argument, 0); }

private:
  explicit DeviceSampler(Executor &executor)
      : theExecutor(executor), device(executor.device()), names(*executor.plan().entries.sample) {}

  Error allocate();
  Error allocateFor(const PlanFunction &function);
  Error findInputs();
  Executor::Call callOf(Entry entry, int64_t firstRow, int64_t rows, char *logits,
                        ArrayRef<Executor::Binding> others = {}) const;
  Expected<char *> evaluate(int64_t firstRow, ArrayRef<RowStart> starts);
  template <class T> Error uploadRows(StringRef tensor, int64_t firstRow, ArrayRef<T> values);
  Error setRows(int64_t firstRow, ArrayRef<RowStart> starts);
  char *rowOf(StringRef tensor, int64_t row) const;
  int64_t longestCache(int64_t rows) const;
  Expected<DeviceGraph *> graphOfStep(int64_t rows);

  Executor &theExecutor;
  Device &device;
  const SampleEntry names;                                 ///< the arguments of @sample
  std::map<std::string, DeviceMemory, std::less<>> memory; ///< of arguments, by name
  std::map<std::string, int64_t, std::less<>> rowBytes;    ///< of each argument, by name
  std::map<std::string, char *, std::less<>> inputs;       ///< arguments of @decode and @verify, by the name here
  int64_t tokensOfPass = 1, tokensOfLaunch = 1;            ///< of @verify and @generate
  int64_t ringEntries = 0;                                 ///< per row
  std::vector<uint32_t> choices;                           ///< by row
  /// The most tokens that a row has in the cache behind all that was enqueued. An ended row counts on.
  std::vector<int64_t> cached;
  /// Graphs of a step, by number of rows and bound of tokens in the cache.
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<DeviceGraph>> graphs;
};

} // namespace kiln
