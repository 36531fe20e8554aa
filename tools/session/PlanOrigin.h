//===- PlanOrigin.h - where a plan's weights and vocabulary are -----------===//
//
// A plan remembers the MODEL that it was compiled from, with a digest of its weights and one of its vocabulary. Plans
// are opened often and checkpoints are large, so a digest does not cover all bytes. It is the SHA-256 of the files'
// sizes and of these bytes of each: all of a file of up to 4 MiB; of a larger one, the first 4 MiB, which hold the
// header, and 1024 pieces of 1 KiB at equal distances up to the last one. So it finds other headers and sizes, and
// other bytes, if they fill a thousandth of a large file. It does not find a few edited numbers, nor is it meant for
// files that somebody wants to pass off as others.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "plan/Plan.h"

namespace kiln {

/// What a plan that is to be written to `directory` remembers of a MODEL. Its path is relative to the directory if the
/// given one is relative, so that both can be moved together. Nothing if the model has neither weights nor a
/// vocabulary, or if its path is not UTF-8, as plan.toml must be. Error: files that cannot be read.
Expected<std::optional<PlanOrigin>> describeOrigin(StringRef model, StringRef directory);

/// The remembered path, for a plan in `directory`.
std::string originPath(const PlanOrigin &origin, StringRef directory);

/// Checks that weights and vocabulary are those that the plan in `directory` remembers. Error, with their path and the
/// remedy: they are missing, others, or cannot be read.
Error checkOrigin(const PlanOrigin &origin, StringRef directory);

} // namespace kiln
