//===- Printer.h - printing IR --------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Prints a module in the syntax of docs/ir.md; parsing the text and printing again gives the same bytes.
void print(const Module &module, raw_ostream &os);
std::string toString(const Module &module);

/// One op on one line, as in its block but without location and alignment: `%mm = matmul %x, %w {…}`. Types are left
/// out; a fused op gives its first line. Used in generated kernels and messages.
std::string toLine(const Op &op);

} // namespace kiln
