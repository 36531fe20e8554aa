#include "runtime/weights/Safetensors.h"

#include "runtime/weights/SafetensorsHeader.h"
#include "support/Diagnostic.h"

#include <cstring>

namespace kiln {

static constexpr uint64_t lengthFieldSize = 8;
static constexpr uint64_t maxHeaderSize = 100'000'000;

Expected<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(StringRef path) {
  Expected<MappedFile> mapping = MappedFile::open(path);
  if (!mapping)
    return mapping.takeError();
  uint64_t fileSize = mapping->bytes().size();
  if (fileSize < lengthFieldSize)
    return makeFileError(path, "expected a safetensors file of at least 8 bytes, got " + Twine(fileSize));
  uint64_t headerSize = 0;
  std::memcpy(&headerSize, mapping->bytes().data(), lengthFieldSize);
  if (headerSize > maxHeaderSize)
    return makeFileError(path, "expected a header of at most " + Twine(maxHeaderSize) + " bytes, got " +
                                   Twine(headerSize) + "; this may not be a safetensors file");
  if (headerSize > fileSize - lengthFieldSize)
    return makeFileError(path, "expected a header within the file's " + Twine(fileSize) + " bytes, got " +
                                   Twine(headerSize) + "; the file may be truncated");
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(*mapping)));
  ArrayRef<uint8_t> bytes = file->mapping.bytes();
  file->buffer = bytes.drop_front(lengthFieldSize + headerSize);
  StringRef header(reinterpret_cast<const char *>(bytes.data()) + lengthFieldSize, headerSize);
  auto entries = parseSafetensorsHeader(path, header, file->buffer.size());
  if (!entries)
    return entries.takeError();
  file->entries = std::move(*entries);
  return file;
}

Expected<TensorView> SafetensorsFile::tensor(StringRef name) const {
  auto found = entries.find(name);
  if (found == entries.end())
    return makeFileError(path(), "tensor '" + name + "': expected it in this file, got none");
  const Entry &entry = found->second;
  std::optional<DType> dtype = parseDType(StringRef(entry.dtype).lower());
  if (!dtype || !isFloat(*dtype))
    return makeFileError(path(), "tensor '" + name + "': expected dtype F32, F16 or BF16, got " + entry.dtype);
  return TensorView{*dtype, entry.shape, buffer.slice(entry.begin, entry.end - entry.begin), shared_from_this()};
}

} // namespace kiln
