//===- LaunchChecks.h - checks of the launches of a function's steps ------===//
#pragma once

#include "plan/FormulaChecks.h"

namespace kiln {

/// The most shared memory of a block on any target, in bytes.
constexpr int64_t maxSharedBytes = 227 * 1024;

/// The memory of something that has an address.
struct TensorMemory {
  Expr bytes;
  DType dtype = DType::F32;
  int64_t alignment = 16; ///< divides its address in every call; at most 16
};
/// Everything that has an address: weights, states, and a function's arguments and buffers.
using TensorMemories = std::map<std::string, TensorMemory, std::less<>>;

/// Checks a step's launches: their kernels exist, a GPU can launch them, they have no more blocks than bytes to work
/// on, tensor maps fit their tensors, and the operands of a library's product are as large as the product needs. The
/// step's arguments must be known names, and its workspace's formulas must have values. `place` is the step's. Error:
/// the first violation, at its place.
Error checkLaunches(const Plan &plan, const PlanStep &step, Place place, const FormulaChecks &formulas,
                    const TensorMemories &tensors);

} // namespace kiln
