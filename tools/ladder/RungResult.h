//===- RungResult.h - the measured result of a rung -----------------------===//
#pragma once

#include "tools/ladder/Reasons.h"

#include "plan/Plan.h"

namespace kiln {

/// The differences of logits from those of the reference executor in fp32.
struct LogitError {
  double largest = 0; ///< difference
  double rootMeanSquare = 0;
  double allowed = 0; ///< for the largest: the difference that the rung's arithmetic explains
};

/// The measurements of a rung. Quantities are sums over everything that is timed.
struct RungResult {
  std::string failure;             ///< why the rung has no results; empty: it ran
  LogitError error;                ///< of the logits of its prompts
  std::vector<double> seconds;     ///< samples; none on a device whose times are meaningless
  std::vector<double> callSamples; ///< likewise, of the whole evaluation of the prompts
  int64_t launches = 0;
  StepCost cost;
  double limitSeconds = 0;   ///< lower bound by the bytes and operations of each kernel (Target::rooflineSeconds)
  double arithmeticRate = 0; ///< operations per second that the target has for its type
  std::optional<double> perplexity;

  // The kernel that takes most of the time.
  std::string kernel; ///< empty: a library
  KernelResources resources;
  int64_t sharedBytes = 0; ///< static and dynamic
  double occupancy = 0;

  double median() const; ///< of the seconds; 0: none
  /// nullopt without a time, or without counts.
  std::optional<double> shareOfLimit() const;
  bool isWrong() const { return !failure.empty() || !(error.largest <= error.allowed); }
};

/// A part and the results of its rungs, in order.
struct MeasuredPart {
  const LadderPart *part = nullptr;
  const LadderReasons *reasons = nullptr; ///< for the device; null: there are none
  std::vector<RungResult> results = {};

  /// The remark on a rung: its failure, or why it is slower than the one below; else empty.
  std::string note(size_t rung) const;
};

} // namespace kiln
