//===- RungResult.h - what a rung was found to be -----------------------------===//
#pragma once

#include "tools/ladder/Reasons.h"

#include "plan/Plan.h"

namespace kiln {

/// How far logits are from those of the reference executor in fp32.
struct LogitError {
  double largest = 0; ///< difference
  double rootMeanSquare = 0;
  double allowed = 0; ///< for the largest: what the rung's arithmetic explains
};

/// What a rung was found to be. Quantities are of all that is timed, together.
struct RungResult {
  std::string failure;         ///< why there is nothing else; empty: it ran
  LogitError error;            ///< of the logits of its prompts
  std::vector<double> seconds; ///< samples; none on a device whose times say nothing
  double callSeconds = 0;      ///< the whole evaluation of the prompts; 0: not timed
  int64_t launches = 0;
  StepCost cost;
  double limitSeconds = 0;   ///< that bytes and operations of the kernels, one by one, allow (Target::rooflineSeconds)
  double arithmeticRate = 0; ///< operations per second that the target has for its type
  std::optional<double> perplexity;

  // Of the kernel that most of the time goes into.
  std::string kernel; ///< empty: a library
  KernelResources resources;
  int64_t sharedBytes = 0; ///< static and dynamic
  double occupancy = 0;

  double median() const; ///< of the seconds; 0: none
  /// Nothing where there is no time, or no counts.
  std::optional<double> shareOfLimit() const;
  bool isWrong() const { return !failure.empty() || !(error.largest <= error.allowed); }
};

/// A part whose rungs were run, in their order.
struct MeasuredPart {
  const LadderPart *part = nullptr;
  const LadderReasons *reasons = nullptr; ///< of the device; null: there are none
  std::vector<RungResult> results = {};

  /// What there is to say about a rung: what went wrong, or why it is slower than the one below; else empty.
  std::string note(size_t rung) const;
};

} // namespace kiln
