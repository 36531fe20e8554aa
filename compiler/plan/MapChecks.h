//===- MapChecks.h - checks of the tensor maps that kernels take ----------===//
#pragma once

#include "plan/LaunchChecks.h"

namespace kiln {

/// Checks a kernel's tensor maps by themselves: what a GPU can encode, for all dims, and a box that shared memory can
/// hold. `place` is that of the list. Error: the first violation, at its place.
Error checkMaps(ArrayRef<PlanTensorMap> maps, Place place, const FormulaChecks &formulas);

/// Checks that a launch's arguments are tensors that the maps of its kernel fit: of their type, aligned, and no smaller
/// than what a map describes. checkMaps has accepted the maps; `place` is that of the arguments. Error: the first
/// violation, at its place.
Error checkMappedArguments(const PlanLaunch &launch, ArrayRef<PlanTensorMap> maps, Place place,
                           const FormulaChecks &formulas, const TensorMemories &tensors);

} // namespace kiln
