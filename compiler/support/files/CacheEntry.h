//===- CacheEntry.h - files of a cache, with a checksum -------------------------===//
//
// A file in a cache may have been cut short by a full disk, damaged, or put in the place of another. So its last line
// holds a checksum of its bytes and its key, and an entry whose checksum is wrong counts as missing. The bytes come
// first and unchanged: a shared library with such a line at its end still loads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Writes an entry completely or not at all, and replaces an existing one. `key`: identifies the input of the bytes,
/// such as the hash in the file's name. Error: `PATH: error: cannot write: reason`.
Error writeCacheEntry(StringRef path, StringRef key, StringRef bytes);

/// The bytes of the entry; none if there is no such file, if it cannot be read, or if its checksum is not that of its
/// bytes and the key.
std::optional<std::string> readCacheEntry(StringRef path, StringRef key);

} // namespace kiln
