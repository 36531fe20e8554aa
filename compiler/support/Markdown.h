//===- Markdown.h - tables of Markdown --------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The text as a cell of a table holds it: with `|` escaped, and with `<br>` in place of line breaks.
std::string tableCell(StringRef text);

/// One row of a table: a line of these cells.
void printTableRow(raw_ostream &os, ArrayRef<std::string> cells);

} // namespace kiln
