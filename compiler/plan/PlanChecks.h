//===- PlanChecks.h - checks of a whole plan ------------------------------===//
#pragma once

#include "plan/Plan.h"
#include "support/text/Config.h"

namespace kiln {

/// Checks that a plan's fields agree with each other, and with the files of `directory` if it is given: names, values
/// of formulas, places in the arena, liveness, limits of launches. `root` is the document that `plan` was read from.
/// Error: the first violation, at the value it is about.
Error checkPlan(const Plan &plan, const ConfigValue &root, std::optional<StringRef> directory);

} // namespace kiln
