//===- Gguf.h - the container format of ggml ---------------------------------===//
//
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: a header, metadata by key, a list of tensors, and their
// bytes. Versions 2 and 3, little-endian. What the keys and tensors mean for a GPT-2 is in GgufModel.cpp and in
// runtime/text/GgufVocabulary.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "formats/ModelFile.h"
#include "support/files/MappedFile.h"

namespace kiln {

/// Types of metadata, with their numbers in the file.
enum class GgufType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

/// The bytes of a number or truth value; 0 for strings and arrays.
uint64_t ggufTypeSize(GgufType type);

/// A value of the metadata, inside the file's bytes.
struct GgufValue {
  GgufType type;
  uint64_t offset;              ///< of its first byte in the file, for messages
  StringRef raw;                ///< a number's or a string's bytes; an array's elements if they are numbers
  GgufType elementType = {};    ///< of an array
  std::vector<StringRef> items; ///< an array's elements if they are strings
};

/// A tensor as the file lists it. Dimensions have the order of the file: the first one varies fastest.
struct GgufTensor {
  std::string name;
  StoredType type;
  SmallVector<int64_t, 4> extents;
  ArrayRef<uint8_t> bytes;
};

class GgufFile {
public:
  /// Whether the bytes begin as those of a GGUF file.
  static bool isGguf(ArrayRef<uint8_t> bytes);

  /// Checks a file. Errors, `PATH: error: byte N: …` or `PATH: error: tensor 'NAME': …`: no GGUF of these
  /// versions; a count or length that the rest of the file cannot hold; a key or a tensor twice; an unknown type of
  /// metadata, nested arrays; a tensor of a type other than F32, F16, BF16 and Q8_0, of a size that is not one, or
  /// whose bytes are not in the file, not aligned, or another's too.
  static Expected<std::shared_ptr<const GgufFile>> open(MappedFile mapping);

  const std::string &path() const { return mapping.path(); }
  uint32_t version() const { return fileVersion; }
  const std::map<std::string, GgufValue, std::less<>> &metadata() const { return values; }
  const std::vector<GgufTensor> &tensors() const { return allTensors; }

  // Values of the metadata. Error: the key is missing, or its value is of another type or range.
  Expected<int64_t> integer(StringRef key, int64_t least, int64_t most) const;
  Expected<double> number(StringRef key) const;
  Expected<StringRef> text(StringRef key) const;
  Expected<ArrayRef<StringRef>> texts(StringRef key) const;
  Expected<std::vector<int64_t>> integers(StringRef key) const;
  /// False if the key is missing.
  Expected<bool> flag(StringRef key) const;

  bool has(StringRef key) const { return values.contains(key); }

  /// `PATH: error: byte N: KEY: MESSAGE`; without the byte if there is no such key.
  Error fail(StringRef key, const Twine &message) const;

private:
  explicit GgufFile(MappedFile mapping) : mapping(std::move(mapping)) {}

  friend class GgufParser;

  MappedFile mapping;
  uint32_t fileVersion = 0;
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> allTensors;
};

} // namespace kiln
