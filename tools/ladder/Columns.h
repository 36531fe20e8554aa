//===- Columns.h - the columns of the ladder's tables ---------------------===//
#pragma once

#include "tools/ladder/RungResult.h"

namespace kiln {

/// A column after the rung's name.
struct Column {
  StringRef name; ///< with its unit
  /// Of a rung of a part; empty: not known, or a time of a device whose times say nothing.
  std::string (*text)(const MeasuredPart &measured, size_t rung);
  bool isShareOfLimit = false; ///< which the page draws, too
};

ArrayRef<Column> ladderColumns();

} // namespace kiln
