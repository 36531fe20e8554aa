//===- FindEntries.h - the entries of a module's plan -----------------------===//
#pragma once

#include "ir/IR.h"
#include "plan/Entries.h"

namespace kiln {

/// What a runtime may call: functions of an entry's name that take and give what the entry says (plan/Entries.h), over
/// the dims that the module's attributes `batch` and `tokens` name. Nothing of a module that is no language model:
/// without these attributes, with other dims, or with a state that is not
/// divided by sequences. @sample is not of a module.
PlanEntries findEntries(const Module &module);

} // namespace kiln
