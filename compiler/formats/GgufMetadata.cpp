#include "formats/Gguf.h"

#include "support/Diagnostic.h"

#include <cstring>

namespace kiln {

uint64_t ggufTypeSize(GgufType type) {
  static constexpr uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return sizes[static_cast<uint32_t>(type)];
}

static StringRef nameOf(GgufType type) {
  static constexpr StringRef names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<uint32_t>(type)];
}

Error GgufFile::fail(StringRef key, const Twine &message) const {
  auto known = values.find(key);
  std::string place = known == values.end() ? "" : "byte " + std::to_string(known->second.offset) + ": ";
  return makeFileError(path(), place + key + ": " + message);
}

/// Calls `function` with a number of this type; other types give nothing.
template <class Function>
static auto withNumber(GgufType type, const char *raw, Function function) -> decltype(function(int64_t())) {
  auto load = [&](auto value) {
    std::memcpy(&value, raw, sizeof value);
    return function(value);
  };
  switch (type) {
  case GgufType::U8:
    return load(uint8_t());
  case GgufType::I8:
    return load(int8_t());
  case GgufType::U16:
    return load(uint16_t());
  case GgufType::I16:
    return load(int16_t());
  case GgufType::U32:
    return load(uint32_t());
  case GgufType::I32:
    return load(int32_t());
  case GgufType::U64:
    return load(uint64_t());
  case GgufType::I64:
    return load(int64_t());
  case GgufType::F32:
    return load(float());
  case GgufType::F64:
    return load(double());
  default:
    return std::nullopt;
  }
}

/// The number as an integer; nothing if it is none, or does not fit 63 bits and a sign.
static std::optional<int64_t> asInteger(GgufType type, const char *raw) {
  return withNumber(type, raw, [](auto value) -> std::optional<int64_t> {
    if constexpr (std::is_integral_v<decltype(value)>)
      if (std::in_range<int64_t>(value))
        return static_cast<int64_t>(value);
    return std::nullopt;
  });
}

static std::string described(const GgufValue &value) {
  if (std::optional<int64_t> integer = asInteger(value.type, value.raw.data()))
    return std::to_string(*integer);
  constexpr size_t longest = 60;
  return value.type == GgufType::String ? "'" + value.raw.take_front(longest).str() + "'"
                                        : "one of type " + nameOf(value.type).str();
}

/// Error: there is no such key.
static Error missing(const GgufFile &file, StringRef key, const Twine &expected) {
  return file.fail(key, "expected " + expected + ", got no such key");
}

Expected<int64_t> GgufFile::integer(StringRef key, int64_t least, int64_t most) const {
  std::string wanted = ("an integer from " + Twine(least) + " to " + Twine(most)).str();
  auto known = values.find(key);
  if (known == values.end())
    return missing(*this, key, wanted);
  std::optional<int64_t> value = asInteger(known->second.type, known->second.raw.data());
  if (!value || *value < least || *value > most)
    return fail(key, "expected " + wanted + ", got " + described(known->second));
  return *value;
}

Expected<double> GgufFile::number(StringRef key) const {
  auto known = values.find(key);
  if (known == values.end())
    return missing(*this, key, "a number");
  auto asDouble = [](auto value) { return std::optional<double>(static_cast<double>(value)); };
  std::optional<double> value = withNumber(known->second.type, known->second.raw.data(), asDouble);
  if (!value)
    return fail(key, "expected a number, got " + described(known->second));
  return *value;
}

Expected<StringRef> GgufFile::text(StringRef key) const {
  auto known = values.find(key);
  if (known == values.end())
    return missing(*this, key, "a string");
  if (known->second.type != GgufType::String)
    return fail(key, "expected a string, got " + described(known->second));
  return known->second.raw;
}

Expected<ArrayRef<StringRef>> GgufFile::texts(StringRef key) const {
  auto known = values.find(key);
  if (known == values.end())
    return missing(*this, key, "an array of strings");
  const GgufValue &value = known->second;
  if (value.type != GgufType::Array || value.elementType != GgufType::String)
    return fail(key, "expected an array of strings, got " + described(value));
  return ArrayRef<StringRef>(value.items);
}

Expected<std::vector<int64_t>> GgufFile::integers(StringRef key) const {
  auto known = values.find(key);
  if (known == values.end())
    return missing(*this, key, "an array of integers");
  const GgufValue &value = known->second;
  std::vector<int64_t> result;
  uint64_t size = ggufTypeSize(value.elementType);
  bool isArray = value.type == GgufType::Array && size > 0;
  for (size_t at = 0; isArray && at < value.raw.size(); at += size) {
    std::optional<int64_t> item = asInteger(value.elementType, value.raw.data() + at);
    if (!item)
      break;
    result.push_back(*item);
  }
  if (!isArray || result.size() * size != value.raw.size())
    return fail(key, "expected an array of integers, got " + described(value));
  return result;
}

Expected<bool> GgufFile::flag(StringRef key) const {
  auto known = values.find(key);
  if (known == values.end())
    return false;
  if (known->second.type != GgufType::Bool)
    return fail(key, "expected true or false, got " + described(known->second));
  return known->second.raw.front() != 0;
}

} // namespace kiln
