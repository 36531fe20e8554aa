//===- LaunchChecks.h - checks of the launches of a function's steps ------===//
#pragma once

#include "plan/FormulaChecks.h"

namespace kiln {

/// The sizes in bytes of everything that has an address: weights, states, and a function's arguments and buffers.
using TensorSizes = std::map<std::string, Expr, std::less<>>;

/// Checks a step's launches: their kernels exist, a GPU can launch them, they have no more blocks than bytes to work
/// on, and the operands of a library's product are as large as the product needs. The step's arguments must be known
/// names, and its workspace's formulas must have values. `place` is the step's. Error: the first violation, at its
/// place.
Error checkLaunches(const Plan &plan, const PlanStep &step, Place place, const FormulaChecks &formulas,
                    const TensorSizes &sizes);

} // namespace kiln
