//===- Table.h - the ladder as text -----------------------------------------===//
#pragma once

#include "tools/ladder/RungResult.h"

namespace kiln {

/// One table per part.
void printLadderMarkdown(raw_ostream &os, StringRef device, StringRef model, ArrayRef<MeasuredPart> parts);

/// All results, with all samples.
void printLadderJson(raw_ostream &os, StringRef device, StringRef model, ArrayRef<MeasuredPart> parts);

} // namespace kiln
