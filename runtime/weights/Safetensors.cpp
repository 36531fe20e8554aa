#include "runtime/weights/Safetensors.h"

#include "runtime/weights/SafetensorsHeader.h"
#include "support/Diagnostic.h"
#include "support/File.h"

#include <cstring>

namespace kiln {

namespace fs = llvm::sys::fs;

static constexpr uint64_t lengthFieldSize = 8;
static constexpr uint64_t maxHeaderSize = 100'000'000;

/// Maps a whole file for reading.
static Expected<fs::mapped_file_region> mapFile(StringRef path) {
  Expected<RegularFile> file = RegularFile::open(path);
  if (!file)
    return file.takeError();
  if (file->size() < lengthFieldSize)
    return makeFileError(path, "expected a safetensors file of at least 8 bytes, got " + Twine(file->size()));
  std::error_code reason;
  fs::mapped_file_region mapping(file->descriptor(), fs::mapped_file_region::readonly, file->size(), /*offset=*/0,
                                 reason);
  if (reason)
    return makeFileError(path, "cannot read: " + reason.message());
  return mapping;
}

Expected<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(StringRef path) {
  Expected<fs::mapped_file_region> mapping = mapFile(path);
  if (!mapping)
    return mapping.takeError();
  uint64_t fileSize = mapping->size();
  uint64_t headerSize = 0;
  std::memcpy(&headerSize, mapping->const_data(), lengthFieldSize);
  if (headerSize > maxHeaderSize)
    return makeFileError(path, "expected a header of at most " + Twine(maxHeaderSize) + " bytes, got " +
                                   Twine(headerSize) + "; this may not be a safetensors file");
  if (headerSize > fileSize - lengthFieldSize)
    return makeFileError(path, "expected a header within the file's " + Twine(fileSize) + " bytes, got " +
                                   Twine(headerSize) + "; the file may be truncated");
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(path, std::move(*mapping)));
  uint64_t bufferStart = lengthFieldSize + headerSize;
  const char *data = file->mapping.const_data();
  file->buffer = {reinterpret_cast<const uint8_t *>(data) + bufferStart, fileSize - bufferStart};
  auto entries = parseSafetensorsHeader(path, StringRef(data + lengthFieldSize, headerSize), file->buffer.size());
  if (!entries)
    return entries.takeError();
  file->entries = std::move(*entries);
  return file;
}

Expected<TensorView> SafetensorsFile::tensor(StringRef name) const {
  auto found = entries.find(name);
  if (found == entries.end())
    return makeFileError(filePath, "tensor '" + name + "': expected it in this file, got none");
  const Entry &entry = found->second;
  std::optional<DType> dtype = parseDType(StringRef(entry.dtype).lower());
  if (!dtype || !isFloat(*dtype))
    return makeFileError(filePath, "tensor '" + name + "': expected dtype F32, F16 or BF16, got " + entry.dtype);
  return TensorView{*dtype, entry.shape, buffer.slice(entry.begin, entry.end - entry.begin), shared_from_this()};
}

} // namespace kiln
