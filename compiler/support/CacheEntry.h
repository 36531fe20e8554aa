//===- CacheEntry.h - files of a cache, with a checksum -------------------------===//
//
// A file of a cache may have been cut short by a full disk, damaged, or put in another one's place. So its last line
// has a checksum, of its bytes and of the key under which it was kept, and an entry that does not fit is none. The
// bytes come first and unchanged: a shared library with such a line behind it is one still.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Writes an entry completely or not at all, and replaces one that is there. `key`: what the bytes are made of, such as
/// the hash that is in the file's name. Error: `PATH: error: cannot write: reason`.
Error writeCacheEntry(StringRef path, StringRef key, StringRef bytes);

/// The bytes of the entry; none if there is no such file, if it cannot be read, or if its checksum is not that of its
/// bytes and the key.
std::optional<std::string> readCacheEntry(StringRef path, StringRef key);

} // namespace kiln
