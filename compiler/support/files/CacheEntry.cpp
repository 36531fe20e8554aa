#include "support/files/CacheEntry.h"

#include "support/files/File.h"

namespace kiln {

/// The last line of an entry, after the newline that separates it from the bytes.
static std::string checksumLine(StringRef key, StringRef bytes) {
  return "\nkiln " + sha256Hex(key.str() + "\n" + bytes.str()) + "\n";
}

Error writeCacheEntry(StringRef path, StringRef key, StringRef bytes) {
  return replaceFile(path, bytes.str() + checksumLine(key, bytes));
}

std::optional<std::string> readCacheEntry(StringRef path, StringRef key) {
  Expected<std::string> entry = readFile(path);
  if (!entry) {
    llvm::consumeError(entry.takeError());
    return std::nullopt;
  }
  size_t lineBytes = checksumLine({}, {}).size();
  if (entry->size() < lineBytes)
    return std::nullopt;
  std::string line = entry->substr(entry->size() - lineBytes);
  entry->resize(entry->size() - lineBytes);
  if (line != checksumLine(key, *entry))
    return std::nullopt;
  return std::move(*entry);
}

} // namespace kiln
