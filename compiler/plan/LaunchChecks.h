//===- LaunchChecks.h - what a function's steps launch -------------------------===//
#pragma once

#include "plan/FormulaChecks.h"

namespace kiln {

/// The bytes of all that has an address: weights, states, and a function's arguments and buffers.
using TensorSizes = std::map<std::string, Expr, std::less<>>;

/// Checks a step's launches: that their kernels are there, that a GPU can launch them, that they have no more blocks
/// than bytes to work on, and that the operands of a library's product are as large as the product. The step's
/// arguments are known names, its workspace's formulas have values. `place` is the step's. Error: the first violation,
/// at its place.
Error checkLaunches(const Plan &plan, const PlanStep &step, Place place, const FormulaChecks &formulas,
                    const TensorSizes &sizes);

} // namespace kiln
