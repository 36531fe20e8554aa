//===- FindEntries.h - the entries of a module's plan -----------------------===//
#pragma once

#include "ir/IR.h"
#include "plan/Entries.h"

namespace kiln {

/// The entries that a runtime may call: functions with an entry's name and with the arguments and results of that entry
/// (plan/Entries.h), over the dims that the module's attributes `batch` and `tokens` name. Empty for a module that is
/// not a language model: one without these attributes, with other dims, or with a state that is not divided by
/// sequences. @sample is not among them, since it is not part of a module.
PlanEntries findEntries(const Module &module);

} // namespace kiln
