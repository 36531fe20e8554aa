//===- PlanChecks.h - does a plan hold together? ----------------------------===//
#pragma once

#include "plan/Plan.h"
#include "support/Config.h"

namespace kiln {

/// Checks what a plan's fields say of each other, and of the files of `directory`, if there is one: names, values of
/// formulas, places in the arena, liveness, limits of launches. `root` is the document that `plan` was read from.
/// Error: the first violation, at the value it is about.
Error checkPlan(const Plan &plan, const ConfigValue &root, std::optional<StringRef> directory);

} // namespace kiln
