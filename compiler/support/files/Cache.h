//===- Cache.h - the user's folder for compiled files ---------------------===//
//
// Programs load and run what they find in their cache, so only the user may write there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// $KILN_CACHE, or kiln/ in the user's cache folder; empty if there is none.
std::string defaultCacheDirectory();

/// Makes the folder if it is missing, with access for the user only, and removes what killed processes have left in it.
/// Error: it cannot be made, belongs to another user, or others may write there.
Error openCache(StringRef directory);

} // namespace kiln
