//===- EntryChecks.h - are a plan's entries what they say? ------------------===//
#pragma once

#include "plan/Plan.h"
#include "plan/PlanPlaces.h"

namespace kiln {

/// Whether functions of the plan take and give what its entries say (plan/Entries.h), and its states have a share for
/// each sequence. A plan without entries passes. Error: the first that does not, at its place.
Error checkEntries(const Plan &plan, Place root);

} // namespace kiln
