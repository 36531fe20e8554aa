//===- RankFollower.h - a rank that does what the first one does ----------===//
#pragma once

#include "runtime/generation/PlanModel.h"
#include "runtime/processes/RankGroup.h"

namespace kiln {

/// Makes the calls that the first rank's RankLeader makes, in a process of another rank, until there are no more.
/// `executor` is of Executor::createRank. Error: that of a call, or of another rank.
Error followCalls(Executor &executor, RankGroup &group);

} // namespace kiln
