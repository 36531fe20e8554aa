//===- Page.h - the ladder as an HTML page ------------------------------------===//
#pragma once

#include "tools/ladder/RungResult.h"

#include "kernels/targets/Target.h"

namespace kiln {

/// A self-contained page: for each part bars of times, a roofline and a table.
std::string ladderPage(StringRef device, StringRef model, const Target &target, ArrayRef<MeasuredPart> parts);

} // namespace kiln
