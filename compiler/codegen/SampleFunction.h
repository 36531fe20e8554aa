//===- SampleFunction.h - the plan's @sample --------------------------------===//
#pragma once

#include "codegen/Generate.h"

namespace kiln {

/// Adds the function that chooses each row's next token from the logits of @decode or @prefill, and its one kernel. It
/// is not a function of the module: it reads and writes the state of a generation, which the runtime binds to its
/// arguments (docs/decisions/0005-sampling-is-a-function-of-the-plan.md). A plan without the entries prefill and
/// decode, or with logits that are not f32, gets no such function.
void addSampleFunction(GeneratedPlan &generated);

} // namespace kiln
