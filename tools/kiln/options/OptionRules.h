//===- OptionRules.h - refusing options that would have no effect ---------===//
//
// An option that was given is honoured or refused, never passed over. Here is what the command line alone tells; what
// depends on the model or on the machine is refused by tools/session (checkForPlan, checkForReference).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/kiln/CommandLine.h"

namespace kiln {

/// Names of the options that were given: --dtype, -o.
using GivenOptions = std::set<std::string, std::less<>>;

/// A sentence about the first given option that the command cannot honour beside the others; nothing where there is
/// none.
std::string contradiction(const Command &command, const GivenOptions &given);

} // namespace kiln
