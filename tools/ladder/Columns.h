//===- Columns.h - the columns of the ladder's tables ---------------------===//
#pragma once

#include "tools/ladder/RungResult.h"

namespace kiln {

/// A column after the rung's name.
struct Column {
  StringRef name; ///< with its unit
  /// The text for a rung; empty if it is not known, or is a time of a device whose times mean nothing.
  std::string (*text)(const MeasuredPart &measured, size_t rung);
  bool isShareOfLimit = false; ///< the page draws it, too
};

ArrayRef<Column> ladderColumns();

} // namespace kiln
