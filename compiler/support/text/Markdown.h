//===- Markdown.h - tables of Markdown --------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Escapes a text for a cell of a table: `|` as `\|`, line breaks as `<br>`.
std::string tableCell(StringRef text);

/// Prints one row of a table: a line with these cells, which it escapes.
void printTableRow(raw_ostream &os, ArrayRef<std::string> cells);

} // namespace kiln
