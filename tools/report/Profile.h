//===- Profile.h - measured times of kernels --------------------------------===//
#pragma once

#include "runtime/measure/PhaseTimes.h"

namespace kiln {

/// The measurements of `kiln bench --what kernels -o json`.
struct Profile {
  struct Row {
    std::string function, kernel;
    int64_t batch = 1, length = 0;
    int64_t launches = 0;
    double seconds = 0; ///< of all launches of one call together, the median
    std::vector<PhaseShare> phases = {};
  };

  std::string device;
  std::vector<Row> rows;

  /// The entry of a kernel in a call at these dims, or null.
  const Row *find(StringRef function, StringRef kernel, int64_t batch, int64_t length) const;
};

/// Reads a profile of `plan`. Error, each at its place: malformed JSON, a missing key, no times (a profile of the
/// emulated device), times of calls instead of kernels, times of another plan.
Expected<Profile> readProfile(StringRef path, const Plan &plan);

} // namespace kiln
