//===- ByteReader.h - reading a binary file value by value -----------------===//
#pragma once

#include "support/ADT.h"

#include <cstring>

namespace kiln {

/// Reads little-endian values of a file's bytes, one after the other. Nothing is read past the end, and nothing is
/// allocated by a count before `claim` has compared it with what is left of the file.
class ByteReader {
public:
  /// `path` is for messages. The bytes must outlive the reader and the strings that it returns.
  ByteReader(StringRef path, ArrayRef<uint8_t> bytes) : path(path), bytes(bytes) {}

  uint64_t offset() const { return at; }

  /// The next value. Error: the file ends before it.
  template <class T> Expected<T> read(const Twine &what) {
    Expected<StringRef> raw = take(sizeof(T), what);
    if (!raw)
      return raw.takeError();
    T value;
    std::memcpy(&value, raw->data(), sizeof value);
    return value;
  }

  /// The next `count` bytes. Error: the file ends before.
  Expected<StringRef> take(uint64_t count, const Twine &what);

  /// A string behind its length, a u64. Error: the file ends before.
  Expected<StringRef> readString(const Twine &what);

  /// Checks that `count` elements of at least `size` bytes can follow. Error: the rest of the file is shorter; the
  /// message has the place of the count, the last value that was read.
  Error claim(uint64_t count, uint64_t size, const Twine &what) const;

  /// `PATH: error: byte N: MESSAGE`, where N is the offset of the value that was read last.
  Error fail(const Twine &message) const;

private:
  StringRef path;
  ArrayRef<uint8_t> bytes;
  uint64_t at = 0, last = 0;
};

} // namespace kiln
