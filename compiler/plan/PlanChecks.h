//===- PlanChecks.h - does a plan hold together? ----------------------------===//
#pragma once

#include "plan/Plan.h"

namespace kiln {

/// Checks what refers to what: names, formulas, places in the arena, files of `directory`. Messages are about `file`.
Error checkPlan(const Plan &plan, StringRef directory, StringRef file);

} // namespace kiln
