//===- MapChecks.h - checks of the tensor maps that kernels take ----------===//
#pragma once

#include "plan/LaunchChecks.h"

namespace kiln {

/// Checks a kernel's tensor maps by themselves: what a GPU can encode, for all dims, and a box that shared memory can
/// hold. `place` is that of the list. Error: the first violation, at its place.
Error checkMaps(ArrayRef<PlanTensorMap> maps, Place place, const FormulaChecks &formulas);

/// Checks a kernel's arrays by themselves: in the order of their arguments, of which each has its own, and a map is of
/// all of an array's or of none. `place` is that of the list. Error: the first violation, at its place.
Error checkArrays(const PlanKernel &kernel, Place place);

/// Checks that a launch's arguments are tensors where its kernel has arrays, and tensors that its maps fit: of their
/// type, aligned, and no smaller than what a map describes. checkMaps and checkArrays have accepted the kernel; `place`
/// is that of the arguments. Error: the first violation, at its place.
Error checkTensorArguments(const PlanLaunch &launch, const PlanKernel &kernel, Place place,
                           const FormulaChecks &formulas, const TensorMemories &tensors);

} // namespace kiln
