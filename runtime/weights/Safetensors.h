//===- Safetensors.h - memory-mapped tensor files ---------------------------===//
//
// The format of https://github.com/huggingface/safetensors: a little-endian u64 N, N bytes of JSON, then the
// tensors' bytes. Everything the header says is checked before any of it is used.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/weights/TensorFile.h"
#include "support/files/MappedFile.h"

namespace kiln {

class SafetensorsFile : public TensorFile, public std::enable_shared_from_this<SafetensorsFile> {
public:
  struct Entry {
    std::string dtype; ///< as spelled in the file: `BF16`
    TensorShape shape;
    uint64_t begin; ///< bytes, from the start of the buffer behind the header
    uint64_t end;
  };

  /// Maps and checks a file. Errors, `PATH: error: [tensor 'NAME':] expected X, got Y`: a header longer than
  /// 100,000,000 bytes or than the file, or that is not a JSON object; a duplicate key; metadata that are not
  /// strings; an unknown dtype; a shape that is no shape; offsets that do not fit the shape, overlap, leave a
  /// hole, or do not end where the file ends.
  static Expected<std::shared_ptr<const SafetensorsFile>> open(StringRef path);

  const std::string &path() const override { return mapping.path(); }

  /// All tensors, of whatever dtype, by name.
  const std::map<std::string, Entry, std::less<>> &tensors() const { return entries; }

  /// The bytes of one of them.
  ArrayRef<uint8_t> bytes(const Entry &entry) const { return buffer.slice(entry.begin, entry.end - entry.begin); }

  ArrayRef<int64_t> shape(StringRef name) const override { return entries.find(name)->second.shape; }
  Error check(StringRef name) const override { return tensor(name).takeError(); }

  /// A tensor of floats; its bytes keep the file mapped. Error: no such tensor, or another dtype.
  Expected<TensorView> tensor(StringRef name) const override;

private:
  explicit SafetensorsFile(MappedFile mapping) : mapping(std::move(mapping)) {}

  MappedFile mapping;
  std::map<std::string, Entry, std::less<>> entries;
  ArrayRef<uint8_t> buffer;
};

} // namespace kiln
