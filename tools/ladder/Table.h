//===- Table.h - the ladder as text -----------------------------------------===//
#pragma once

#include "tools/ladder/RungResult.h"

namespace kiln {

/// A table for each part.
void printLadderMarkdown(raw_ostream &os, StringRef device, StringRef model, ArrayRef<MeasuredPart> parts);

/// Everything with all samples.
void printLadderJson(raw_ostream &os, StringRef device, StringRef model, ArrayRef<MeasuredPart> parts);

} // namespace kiln
