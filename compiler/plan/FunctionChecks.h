//===- FunctionChecks.h - does a function of a plan hold together? ------------===//
#pragma once

#include "plan/LaunchChecks.h"

namespace kiln {

/// Checks what the fields of one of the plan's functions say of each other: names, values of formulas, liveness, and
/// all that ArenaChecks.h and LaunchChecks.h check. `costs` knows pastTokens beside the dims. `globals` are weights and
/// states, which are checked. `place` is the function's. Error: the first violation, at its place.
Error checkFunction(const Plan &plan, const PlanFunction &function, Place place, const FormulaChecks &formulas,
                    const FormulaChecks &costs, const TensorSizes &globals);

} // namespace kiln
