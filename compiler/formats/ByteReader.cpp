#include "formats/ByteReader.h"

#include "support/Diagnostic.h"

namespace kiln {

Error ByteReader::fail(const Twine &message) const {
  return makeFileError(path, "byte " + Twine(last) + ": " + message);
}

Expected<StringRef> ByteReader::take(uint64_t count, const Twine &what) {
  last = at;
  if (count > bytes.size() - at)
    return fail(what + ": expected " + Twine(count) + " bytes, got " + Twine(bytes.size() - at) +
                " up to the end of the file, which may be truncated");
  StringRef taken(reinterpret_cast<const char *>(bytes.data()) + at, count);
  at += count;
  return taken;
}

Expected<StringRef> ByteReader::readString(const Twine &what) {
  Expected<uint64_t> length = read<uint64_t>(what + ", length");
  if (!length)
    return length.takeError();
  if (Error error = claim(*length, 1, what))
    return error;
  return take(*length, what);
}

Error ByteReader::claim(uint64_t count, uint64_t size, const Twine &what) const {
  uint64_t left = bytes.size() - at;
  if (count <= left / size)
    return Error::success();
  std::string each = size == 1 ? "bytes" : ("items of at least " + Twine(size) + " bytes").str();
  return fail(what + ": expected at most the " + Twine(left) + " bytes that are left of the file, got a count of " +
              Twine(count) + " " + each + "; the file may be damaged or truncated");
}

} // namespace kiln
