//===- ArenaChecks.h - checks of the places of a function's values --------===//
#pragma once

#include "plan/FormulaChecks.h"

namespace kiln {

/// Checks that buffers and the scratch of steps lie inside the arena at multiples of 16 bytes, and that buffers which
/// are live together do not overlap, for all dims. Also checks the buffers' own fields: they have sizes, and are
/// ordered by their first steps. `place` is the function's. Error: the first violation, at its place.
Error checkArena(const PlanFunction &function, Place place, const FormulaChecks &formulas);

} // namespace kiln
