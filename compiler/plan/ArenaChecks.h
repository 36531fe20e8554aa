//===- ArenaChecks.h - the places of a function's values ----------------------===//
#pragma once

#include "plan/FormulaChecks.h"

namespace kiln {

/// Checks that buffers and the scratch of steps lie inside the arena, at multiples of 16 bytes, and that those that are
/// live together lie apart, whatever the dims are. The buffers' own fields are checked: they have sizes, and stand in
/// the order of their first steps. `place` is the function's. Error: the first that does not, at its place.
Error checkArena(const PlanFunction &function, Place place, const FormulaChecks &formulas);

} // namespace kiln
