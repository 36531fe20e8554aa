//===- EntryChecks.h - checks of a plan's entries -------------------------===//
#pragma once

#include "plan/Plan.h"
#include "plan/PlanPlaces.h"

namespace kiln {

/// Checks that the plan's functions have the arguments and results that its entries name (plan/Entries.h), and that its
/// states have a share for each sequence. A plan without entries passes. Error: the first violation, at its place.
Error checkEntries(const Plan &plan, Place root);

} // namespace kiln
