//===- SpeculationBenchmark.h - timing speculation ------------------------------===//
#pragma once

#include "runtime/generation/Generator.h"
#include "runtime/measure/Benchmark.h"

namespace kiln {

/// What speculation is timed on: equal rows with a prompt of arbitrary tokens, which are continued greedily.
struct SpeculationShape {
  int64_t batch = 1;
  int64_t position = 64;  ///< tokens of the prompt
  int64_t newTokens = 64; ///< of each row, in a sample
};

/// The times of the parts of a pass, in seconds.
struct PassTimes {
  std::vector<double> plain; ///< a step without guesses
  std::vector<double> draft; ///< all guesses of a pass
  std::vector<double> check; ///< @verify and @accept
};

/// Generation with a rate of right guesses, or without guesses.
struct SpeculationTimes {
  std::vector<double> seconds; ///< for a new token of each row, without the first; one per sample
  SpeculationCounts counts;    ///< of all rows and samples
  int64_t tokens = 0;          ///< of all rows and samples, without the first of each

  void add(ArrayRef<Generation> rows);
  /// New tokens of a pass.
  double tokensPerPass() const { return counts.passes > 0 ? static_cast<double>(tokens) / counts.passes : 1; }
};

/// Times generation of `model` on `executor`, which is the model's.
class SpeculationBenchmark {
public:
  /// Everything must outlive the benchmark.
  SpeculationBenchmark(LanguageModel &model, Executor &executor, const SpeculationShape &shape, int64_t samples);

  /// Without guesses. Call this first: it finds the text that guesses are compared with.
  Expected<SpeculationTimes> timePlain();
  /// With guesses that cost what those of `draft` cost, and are right with a probability.
  Expected<SpeculationTimes> time(Draft &draft, const DraftLength &length, double acceptance);
  /// The parts of a pass with so many guesses.
  Expected<PassTimes> timePass(Draft &draft, int64_t guesses);

private:
  Expected<std::vector<Generation>> generateOnce(Draft *draft, const DraftLength &length);
  Expected<SpeculationTimes> timeSamples(const DraftLength &length, function_ref<Draft *(int32_t sample)> draftOf);

  LanguageModel &model;
  Executor &executor;
  SpeculationShape shape;
  int64_t samples;
  std::vector<int32_t> prompt;
  std::vector<int32_t> text; ///< prompt and new tokens, which timePlain finds
};

} // namespace kiln
