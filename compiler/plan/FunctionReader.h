//===- FunctionReader.h - functions of a plan, as tables of plan.toml --------===//
#pragma once

#include "plan/Plan.h"
#include "support/text/ConfigFields.h"

namespace kiln {

/// Reads a closed table. Error: a field that is missing, unknown or wrong, at its place.
Error readTensor(const ConfigValue &table, PlanTensor &tensor);
Error readFunction(const ConfigValue &table, PlanFunction &function);

} // namespace kiln
