#include "formats/Gguf.h"

#include "formats/ByteReader.h"
#include "support/Diagnostic.h"
#include "support/model/WeightRecipe.h"

namespace kiln {

static constexpr StringRef magic = "GGUF";
static constexpr StringRef alignmentKey = "general.alignment";
static constexpr uint32_t defaultAlignment = 32, mostAlignment = 1 << 20, mostDimensions = 4;

bool GgufFile::isGguf(ArrayRef<uint8_t> bytes) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// The name of one of ggml's types of elements, for messages.
static std::string tensorTypeName(uint32_t number) {
  static const std::map<uint32_t, StringRef> names = {
      {0, "F32"},      {1, "F16"},     {2, "Q4_0"},     {3, "Q4_1"},   {6, "Q5_0"},    {7, "Q5_1"},   {8, "Q8_0"},
      {9, "Q8_1"},     {10, "Q2_K"},   {11, "Q3_K"},    {12, "Q4_K"},  {13, "Q5_K"},   {14, "Q6_K"},  {15, "Q8_K"},
      {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},
      {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},   {27, "I64"},    {28, "F64"},   {30, "BF16"}};
  auto known = names.find(number);
  return known == names.end() ? "number " + std::to_string(number) : known->second.str();
}

static std::optional<StoredType> storedType(uint32_t number) {
  switch (number) {
  case 0:
    return StoredType::F32;
  case 1:
    return StoredType::F16;
  case 8:
    return StoredType::Q8;
  case 30:
    return StoredType::BF16;
  default:
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Reading a file
//===----------------------------------------------------------------------===//

class GgufParser {
public:
  explicit GgufParser(GgufFile &file) : file(file), bytes(file.mapping.bytes()), reader(file.path(), bytes) {}

  Error parse();

private:
  Error failTensor(StringRef name, const Twine &message) const {
    return makeFileError(file.path(), "tensor '" + name + "': " + message);
  }

  Error readVersion();
  Error readValues(uint64_t count);
  Error readValue();
  Expected<GgufType> readType(StringRef key);
  Error readArray(StringRef key, GgufValue &value);
  Error readTensors(uint64_t count);
  Expected<uint64_t> readTensor(GgufTensor &tensor);
  Error readExtents(GgufTensor &tensor);
  Error placeTensors(ArrayRef<uint64_t> offsets);
  Expected<uint64_t> alignment() const;
  Error checkOverlap() const;

  GgufFile &file;
  ArrayRef<uint8_t> bytes;
  ByteReader reader;
};

Error GgufParser::readVersion() {
  if (!GgufFile::isGguf(bytes))
    return makeFileError(file.path(), "byte 0: expected 'GGUF', as GGUF files begin, got something else");
  cantFail(reader.take(magic.size(), ""));
  if (Error error = reader.read<uint32_t>("version").moveInto(file.fileVersion))
    return error;
  if (file.fileVersion == 2 || file.fileVersion == 3)
    return Error::success();
  bool isBigEndian = file.fileVersion != 0 && file.fileVersion % (1 << 24) == 0;
  return reader.fail(
      "version: expected 2 or 3, got " +
      (isBigEndian ? Twine("one of a big-endian file; convert it to little-endian") : Twine(file.fileVersion)));
}

Error GgufParser::parse() {
  if (Error error = readVersion())
    return error;
  Expected<uint64_t> tensors = reader.read<uint64_t>("number of tensors");
  if (!tensors)
    return tensors.takeError();
  // Of every tensor: the length of its name, the number of dimensions, the type and the offset.
  if (Error error = reader.claim(*tensors, 24, "tensors"))
    return error;
  Expected<uint64_t> values = reader.read<uint64_t>("number of keys");
  if (!values)
    return values.takeError();
  // Of every key: its length, the type, and at least one byte of value.
  if (Error error = reader.claim(*values, 13, "keys"))
    return error;
  if (Error error = readValues(*values))
    return error;
  return readTensors(*tensors);
}

Error GgufParser::readValues(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    if (Error error = readValue())
      return error;
  return Error::success();
}

Expected<GgufType> GgufParser::readType(StringRef key) {
  Expected<uint32_t> type = reader.read<uint32_t>(key + ", type");
  if (!type)
    return type.takeError();
  if (*type > static_cast<uint32_t>(GgufType::F64))
    return reader.fail(key + ": expected a type from 0 to 12, got " + Twine(*type));
  return static_cast<GgufType>(*type);
}

Error GgufParser::readArray(StringRef key, GgufValue &value) {
  if (Error error = readType(key).moveInto(value.elementType))
    return error;
  if (value.elementType == GgufType::Array)
    return reader.fail(key + ": expected an array of numbers or strings, got one of arrays");
  Expected<uint64_t> count = reader.read<uint64_t>(key + ", count");
  if (!count)
    return count.takeError();
  bool isText = value.elementType == GgufType::String;
  uint64_t size = isText ? sizeof(uint64_t) : ggufTypeSize(value.elementType);
  if (Error error = reader.claim(*count, size, key))
    return error;
  if (!isText)
    return reader.take(*count * size, key).moveInto(value.raw);
  value.items.resize(*count);
  for (auto [i, item] : llvm::enumerate(value.items))
    if (Error error = reader.readString(key + ", item " + Twine(i)).moveInto(item))
      return error;
  return Error::success();
}

Error GgufParser::readValue() {
  Expected<StringRef> key = reader.readString("key");
  if (!key)
    return key.takeError();
  if (file.values.contains(*key))
    return reader.fail("expected each key once, got '" + *key + "' twice");
  Expected<GgufType> type = readType(*key);
  if (!type)
    return type.takeError();
  GgufValue value{*type, reader.offset(), {}, {}, {}};
  Error error = *type == GgufType::Array    ? readArray(*key, value)
                : *type == GgufType::String ? reader.readString(*key).moveInto(value.raw)
                                            : reader.take(ggufTypeSize(*type), *key).moveInto(value.raw);
  if (error)
    return error;
  file.values.emplace(key->str(), std::move(value));
  return Error::success();
}

Error GgufParser::readExtents(GgufTensor &tensor) {
  Expected<uint32_t> dimensions = reader.read<uint32_t>("tensor '" + tensor.name + "', number of dimensions");
  if (!dimensions)
    return dimensions.takeError();
  if (*dimensions < 1 || *dimensions > mostDimensions)
    return failTensor(tensor.name, "expected 1 to " + Twine(mostDimensions) + " dimensions, got " + Twine(*dimensions));
  for (uint32_t i = 0; i < *dimensions; ++i) {
    Expected<int64_t> extent = reader.read<int64_t>("tensor '" + tensor.name + "', dimension");
    if (!extent)
      return extent.takeError();
    if (*extent < 0)
      return failTensor(tensor.name,
                        "expected dimensions that fit in 63 bits, got " + Twine(static_cast<uint64_t>(*extent)));
    tensor.extents.push_back(*extent);
  }
  return Error::success();
}

/// Reads the record of a tensor. Returns the offset of its data behind the header.
Expected<uint64_t> GgufParser::readTensor(GgufTensor &tensor) {
  Expected<StringRef> name = reader.readString("name of a tensor");
  if (!name)
    return name.takeError();
  tensor.name = name->str();
  if (Error error = readExtents(tensor))
    return error;
  Expected<uint32_t> number = reader.read<uint32_t>("tensor '" + *name + "', type");
  if (!number)
    return number.takeError();
  std::optional<StoredType> type = storedType(*number);
  if (!type)
    return failTensor(*name, "expected type F32, F16, BF16 or Q8_0, got " + tensorTypeName(*number) +
                                 "; convert the model to one of these types");
  tensor.type = *type;
  return reader.read<uint64_t>("tensor '" + *name + "', offset");
}

Error GgufParser::readTensors(uint64_t count) {
  std::vector<uint64_t> offsets;
  StringSet<> seen;
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor;
    Expected<uint64_t> offset = readTensor(tensor);
    if (!offset)
      return offset.takeError();
    if (!seen.insert(tensor.name).second)
      return failTensor(tensor.name, "expected it once, got it twice");
    offsets.push_back(*offset);
    file.allTensors.push_back(std::move(tensor));
  }
  if (Error error = placeTensors(offsets))
    return error;
  return checkOverlap();
}

Expected<uint64_t> GgufParser::alignment() const {
  if (!file.has(alignmentKey))
    return defaultAlignment;
  Expected<int64_t> given = file.integer(alignmentKey, 1, mostAlignment);
  if (!given)
    return given.takeError();
  if (!llvm::isPowerOf2_64(*given))
    return file.fail(alignmentKey, "expected a power of two, got " + Twine(*given));
  return *given;
}

/// Finds the bytes of every tensor.
Error GgufParser::placeTensors(ArrayRef<uint64_t> offsets) {
  Expected<uint64_t> unit = alignment();
  if (!unit)
    return unit.takeError();
  uint64_t start = llvm::alignTo(reader.offset(), *unit);
  ArrayRef<uint8_t> data = bytes.drop_front(std::min<uint64_t>(start, bytes.size()));
  for (auto [tensor, offset] : llvm::zip(file.allTensors, offsets)) {
    std::optional<int64_t> elements = elementCount(tensor.extents), size;
    if (elements && tensor.type == StoredType::Q8 && tensor.extents[0] % q8BlockElements != 0)
      return failTensor(tensor.name, "expected rows of whole blocks of " + Twine(q8BlockElements) + " elements, got " +
                                         Twine(tensor.extents[0]));
    if (elements)
      size = storedBytes(tensor.type, *elements);
    if (!size)
      return failTensor(tensor.name,
                        "expected a size in bytes that fits in 63 bits, got dimensions " + shapeString(tensor.extents));
    if (offset % *unit != 0)
      return failTensor(tensor.name,
                        "expected an offset that is a multiple of " + Twine(*unit) + ", got " + Twine(offset));
    if (offset > data.size() || static_cast<uint64_t>(*size) > data.size() - offset)
      return failTensor(tensor.name, "expected its " + Twine(*size) + " bytes within the " + Twine(data.size()) +
                                         " bytes of data, got them at byte " + Twine(offset) +
                                         "; the file may be truncated");
    tensor.bytes = data.slice(offset, *size);
  }
  return Error::success();
}

Error GgufParser::checkOverlap() const {
  std::vector<const GgufTensor *> inOrder;
  for (const GgufTensor &tensor : file.allTensors)
    if (!tensor.bytes.empty())
      inOrder.push_back(&tensor);
  llvm::stable_sort(inOrder, [](const auto *a, const auto *b) { return a->bytes.begin() < b->bytes.begin(); });
  for (size_t i = 1; i < inOrder.size(); ++i)
    if (inOrder[i]->bytes.begin() < inOrder[i - 1]->bytes.end())
      return failTensor(inOrder[i]->name,
                        "expected bytes of its own, got some of tensor '" + inOrder[i - 1]->name + "'");
  return Error::success();
}

Expected<std::shared_ptr<const GgufFile>> GgufFile::open(MappedFile mapping) {
  std::shared_ptr<GgufFile> file(new GgufFile(std::move(mapping)));
  if (Error error = GgufParser(*file).parse())
    return error;
  return file;
}

} // namespace kiln
