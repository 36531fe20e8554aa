#include "formats/GgufWriter.h"

#include "support/model/WeightRecipe.h"

namespace kiln {

template <class T> static void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

static void appendText(std::string &bytes, StringRef text) {
  append<uint64_t>(bytes, text.size());
  bytes += text;
}

void GgufWriter::addKey(StringRef key, GgufType type) {
  ++valueCount;
  appendText(values, key);
  append(values, type);
}

void GgufWriter::add(StringRef key, StringRef text) {
  addKey(key, GgufType::String);
  appendText(values, text);
}

void GgufWriter::add(StringRef key, uint32_t number) {
  addKey(key, GgufType::U32);
  append(values, number);
}

void GgufWriter::add(StringRef key, float number) {
  addKey(key, GgufType::F32);
  append(values, number);
}

void GgufWriter::add(StringRef key, bool value) {
  addKey(key, GgufType::Bool);
  append<uint8_t>(values, value ? 1 : 0);
}

void GgufWriter::add(StringRef key, ArrayRef<std::string> texts) {
  addKey(key, GgufType::Array);
  append(values, GgufType::String);
  append<uint64_t>(values, texts.size());
  for (const std::string &text : texts)
    appendText(values, text);
}

void GgufWriter::add(StringRef key, ArrayRef<int32_t> numbers) {
  addKey(key, GgufType::Array);
  append(values, GgufType::I32);
  append<uint64_t>(values, numbers.size());
  for (int32_t number : numbers)
    append(values, number);
}

void GgufWriter::addTensor(StringRef name, StoredType type, ArrayRef<int64_t> shape) {
  ++tensorCount;
  appendText(tensors, name);
  append<uint32_t>(tensors, static_cast<uint32_t>(shape.size()));
  for (int64_t extent : llvm::reverse(shape))
    append<uint64_t>(tensors, extent);
  append(tensors, ggufTypeNumber(type));
  append<uint64_t>(tensors, offset);
  offset += llvm::alignTo(*storedBytes(type, *elementCount(shape)), alignment);
}

std::string GgufWriter::header() const {
  std::string bytes = "GGUF";
  append<uint32_t>(bytes, 3);
  append<uint64_t>(bytes, tensorCount);
  append<uint64_t>(bytes, valueCount);
  bytes += values + tensors;
  bytes.resize(llvm::alignTo(bytes.size(), alignment));
  return bytes;
}

} // namespace kiln
