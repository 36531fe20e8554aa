//===- GgufWriter.h - the header of a GGUF file --------------------------------===//
#pragma once

#include "formats/GgufModel.h"

namespace kiln {

/// Collects keys and tensors, and gives the bytes in front of the tensors' data, version 3. The data follow in the
/// order of addTensor, each filled up with zeros to a multiple of `alignment`.
class GgufWriter {
public:
  static constexpr uint64_t alignment = 32;

  void add(StringRef key, StringRef text);
  void add(StringRef key, uint32_t number);
  void add(StringRef key, float number);
  void add(StringRef key, bool value);
  void add(StringRef key, ArrayRef<std::string> texts);
  void add(StringRef key, ArrayRef<int32_t> numbers);

  /// `shape`: row-major, as the tensor is stored. A type other than Q8_0.
  void addTensor(StringRef name, StoredType type, ArrayRef<int64_t> shape);

  std::string header() const;

private:
  void addKey(StringRef key, GgufType type);

  std::string values, tensors;
  uint64_t valueCount = 0, tensorCount = 0, offset = 0;
};

} // namespace kiln
