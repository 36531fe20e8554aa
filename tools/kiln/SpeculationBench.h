//===- SpeculationBench.h - `kiln bench --what speculation` ---------------------===//
#pragma once

#include "tools/kiln/CommandLine.h"

namespace kiln {

/// Times generation with and without guesses, and the parts of a pass. Error: as of openDraft; the reference executor,
/// which has no passes; a length that leaves no room for new tokens.
Error benchSpeculation(const BenchCommand &command);

} // namespace kiln
