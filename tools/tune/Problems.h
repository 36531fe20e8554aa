//===- Problems.h - what `kiln tune` measures --------------------------------===//
#pragma once

#include "kernels/tuning/Tuning.h"
#include "runtime/measure/Benchmark.h"

namespace kiln {

/// What became of a candidate.
struct Trial {
  enum class State { Untried, Timed, Wrong, Failed };
  KernelChoice choice = {};
  double modelled = 0; ///< seconds, by the family's estimate
  State state = State::Untried;
  double seconds = 0;      ///< of one launch
  std::string reason = {}; ///< why it is wrong or has failed

  /// Says so of it.
  void reject(State why, std::string because) { state = why, reason = std::move(because); }
  bool isRejected() const { return state == State::Wrong || state == State::Failed; }
  /// Of a state but Untried: `timed`, `wrong`, `failed`.
  StringRef stateName() const;
  /// `gemm_simt {threads = 128}`
  std::string configuration() const;
};

/// A problem of the database, as it occurs in a call.
struct TuningProblem {
  std::string name;
  int64_t rows = 0;
  CallShape call;
  size_t step = 0;           ///< the first of the function's steps that is one
  std::vector<Trial> trials; ///< the first is what the model chose
  size_t chosen = 0;         ///< of the trials: what the database says

  /// Those that were timed, the fastest first.
  std::vector<size_t> ranking() const;
  /// The first of the ranking; the model's if nothing was timed.
  size_t fastest() const;
};

/// A whole call, with what the model chose and with what the database says; of @decode the mean of a token where the
/// cache is short and one where it is long.
struct CallTimes {
  CallShape call;
  double modelSeconds = 0, seconds = 0;
};

/// The problems of the calls in a module that has run the pipeline with no database, each once for its number of rows.
/// Trials are every configuration of every family that runs the op, but those whose modelled time is more than
/// `mostOfBest` times that of the best, and but the likeliest `mostTrials` of each problem.
std::vector<TuningProblem> findProblems(const Module &module, const Target &target, ArrayRef<CallShape> calls,
                                        double mostOfBest, size_t mostTrials);

} // namespace kiln
