//===- FunctionChecks.h - checks of a plan's functions --------------------===//
#pragma once

#include "plan/LaunchChecks.h"

namespace kiln {

/// Checks that the fields of one of the plan's functions agree: names, values of formulas, liveness, and everything
/// that ArenaChecks.h and LaunchChecks.h check. `costs` knows pastTokens besides the dims. `globals` are the weights
/// and states, which have already been checked. `place` is the function's. Error: the first violation, at its place.
Error checkFunction(const Plan &plan, const PlanFunction &function, Place place, const FormulaChecks &formulas,
                    const FormulaChecks &costs, const TensorMemories &globals);

} // namespace kiln
