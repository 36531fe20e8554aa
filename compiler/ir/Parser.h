//===- Parser.h - parsing IR text -----------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Parses and verifies one module. Ops without a loc() get the position of their text, which the printer leaves
/// out again. Error: the first thing that is not IR, at its place; a result type that inference does not give.
Expected<std::unique_ptr<Module>> parseModule(const SourceFile *file, SourceManager &sources, const OpTable &table);

} // namespace kiln
