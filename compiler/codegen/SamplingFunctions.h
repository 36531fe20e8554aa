//===- SamplingFunctions.h - functions of a plan that choose tokens ---------===//
#pragma once

#include "codegen/Generate.h"

namespace kiln {

/// Adds @sample, which chooses each row's next token from the logits of @decode or @prefill; and to a plan with @verify
/// what speculation needs beside it: @ngram, @follow, @collect, @accept and @pretend. Each has one step and one kernel.
/// They are not functions of the module: they read and write the state of a generation, which the runtime binds to
/// their arguments (docs/decisions/0005-sampling-is-a-function-of-the-plan.md). A plan without the entries prefill and
/// decode, or with logits that are not f32, gets none of them.
void addSamplingFunctions(GeneratedPlan &generated);

} // namespace kiln
