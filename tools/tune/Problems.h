//===- Problems.h - the problems that `kiln tune` measures ----------------===//
#pragma once

#include "kernels/tuning/Tuning.h"
#include "runtime/measure/Benchmark.h"

namespace kiln {

/// A candidate and the outcome of its trial.
struct Trial {
  enum class State { Untried, Timed, Wrong, Failed };
  KernelChoice choice = {};
  double modelled = 0; ///< seconds, as the family's estimate says
  State state = State::Untried;
  double seconds = 0;      ///< of one launch; of the whole call if it was timed within it
  std::string reason = {}; ///< why the trial is wrong or has failed

  void setTime(double measured) { state = State::Timed, seconds = measured; }
  /// Drops the trial, for a reason.
  void reject(State why, std::string because) { state = why, reason = std::move(because); }
  /// Drops a trial that does not compile, for the compiler's message without lines of its source.
  void fail(Error error);
  bool isRejected() const { return state == State::Wrong || state == State::Failed; }
  /// `timed`, `wrong` or `failed`; not for Untried.
  StringRef stateName() const;
  /// `gemm_simt {threads = 128}`
  std::string configuration() const;
};

/// A problem of the database, as it occurs in a call.
struct TuningProblem {
  std::string name;
  int64_t rows = 0, tokens = 0; ///< bounds that choose-tiles looks up for the call, as TunedChoice has them
  CallShape call;
  size_t step = 0;           ///< the first of the function's steps with this problem
  std::vector<Trial> trials; ///< the first is the choice of the model, or what the trials start from
  size_t chosen = 0;         ///< index of the trial that the database gets

  /// `256`, or `256 of prompts up to 64`
  std::string bounds() const;
  /// The timed trials, the fastest first.
  std::vector<size_t> ranking() const;
  /// The first of the ranking; the first choice if nothing was timed.
  size_t fastest() const;
};

/// The times of a whole call with the first choices and with the database's. For @decode, a token's mean time over a
/// short and a long cache.
struct CallTimes {
  CallShape call;
  double firstSeconds = 0, seconds = 0;
};

/// The problems of the calls in a module that has run the pipeline with the database that trials start from. Each is
/// measured in one call for each kernel that choose-tiles chooses: in the first that has as many rows as its bound, or
/// else the first that it takes. Trials are every configuration of every family that runs the op, those included that
/// only a tuner tries, except those whose modelled time is more than `mostOfBest` times the best; at most the
/// `mostTrials` most promising of each problem are kept.
std::vector<TuningProblem> findProblems(const Module &module, const Target &target, ArrayRef<CallShape> calls,
                                        double mostOfBest, size_t mostTrials);

} // namespace kiln
