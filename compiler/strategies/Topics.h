//===- Topics.h - the parts of the table of strategies ---------------------===//
#pragma once

#include "strategies/Strategy.h"

namespace kiln {

/// The arguments as settings of a tile.
AttributeMap settings(const StrategyArguments &arguments);
/// Sets the configuration of a family, if there are settings.
void configure(PipelineOptions &options, StringRef family, AttributeMap tile);

/// The topics about a whole plan: fusion, the cache, how it is launched, precision.
std::vector<Strategy> wholeStrategies();

} // namespace kiln
