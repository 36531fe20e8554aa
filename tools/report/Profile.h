//===- Profile.h - measured times of kernels --------------------------------===//
#pragma once

#include "plan/Plan.h"

namespace kiln {

/// What `kiln bench --what kernels -o json` measured.
struct Profile {
  struct Row {
    std::string function, kernel;
    int64_t batch = 1, length = 0;
    int64_t launches = 0;
    double seconds = 0; ///< of all launches of one call together, the median
  };

  std::string device;
  std::vector<Row> rows;

  /// Of a kernel in a call, at these dims; or null.
  const Row *find(StringRef function, StringRef kernel, int64_t batch, int64_t length) const;
};

/// Reads a profile of `plan`. Error: malformed JSON, a missing key, no times (those of the emulated device), times of
/// calls and not of kernels, or of another plan, each at its place.
Expected<Profile> readProfile(StringRef path, const Plan &plan);

} // namespace kiln
