#include "runtime/weights/SafetensorsHeader.h"

#include "support/Diagnostic.h"
#include "support/text/Json.h"

namespace kiln {

using Entry = SafetensorsFile::Entry;
using Entries = std::map<std::string, Entry, std::less<>>;

/// The bits of an element, for every dtype of the format.
static std::optional<int64_t> dtypeBits(StringRef name) {
  static constexpr std::pair<StringRef, int64_t> table[] = {
      {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
      {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
      {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64}};
  for (const auto &[known, bits] : table)
    if (known == name)
      return bits;
  return std::nullopt;
}

namespace {
/// Parses the header's entry of one tensor; every message names the tensor.
class EntryParser {
public:
  EntryParser(StringRef path, StringRef name, const JsonObject &object) : path(path), name(name), object(object) {}

  Expected<Entry> parse();

private:
  Error fail(const Twine &message) const { return makeFileError(path, "tensor '" + name + "': " + message); }

  Error checkKeys() const;
  Error readShape(Entry &entry) const;
  Error readOffsets(Entry &entry) const;
  Error checkSize(const Entry &entry) const;

  StringRef path;
  StringRef name;
  const JsonObject &object;
};
} // namespace

Error EntryParser::checkKeys() const {
  StringSet<> seen;
  for (const JsonObject::Member &member : object.members)
    if (!seen.insert(member.key).second)
      return fail("expected each key once, got '" + member.key + "' twice");
  return Error::success();
}

/// Reads an array of non-negative integers; empty if the value is something else.
static std::optional<TensorShape> readSizes(const json::Array *array) {
  if (!array)
    return std::nullopt;
  TensorShape sizes;
  for (const json::Value &value : *array) {
    std::optional<int64_t> size = jsonInteger(value);
    if (!size || *size < 0)
      return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

Error EntryParser::readShape(Entry &entry) const {
  std::optional<StringRef> dtype = object.values.getString("dtype");
  if (!dtype || !dtypeBits(*dtype))
    return fail("expected a known dtype, got " + (dtype ? "'" + dtype->str() + "'" : std::string("none")));
  entry.dtype = dtype->str();
  auto shape = readSizes(object.values.getArray("shape"));
  if (!shape)
    return fail("expected 'shape' to be an array of non-negative integers");
  entry.shape = std::move(*shape);
  return Error::success();
}

Error EntryParser::readOffsets(Entry &entry) const {
  auto offsets = readSizes(object.values.getArray("data_offsets"));
  if (!offsets || offsets->size() != 2)
    return fail("expected 'data_offsets' to be two non-negative integers");
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  if (entry.begin > entry.end)
    return fail("expected data_offsets that do not decrease, got " + shapeString(*offsets));
  return Error::success();
}

Error EntryParser::checkSize(const Entry &entry) const {
  int64_t bits = 0;
  std::optional<int64_t> count = elementCount(entry.shape);
  if (!count || __builtin_mul_overflow(*count, *dtypeBits(entry.dtype), &bits))
    return fail("expected a shape whose size fits in 63 bits, got " + shapeString(entry.shape));
  if (bits % 8 != 0)
    return fail("expected whole bytes, got " + Twine(bits) + " bits");
  auto wanted = static_cast<uint64_t>(bits / 8);
  if (entry.end - entry.begin != wanted)
    return fail("expected " + Twine(wanted) + " bytes for " + entry.dtype + shapeString(entry.shape) + ", got " +
                Twine(entry.end - entry.begin));
  return Error::success();
}

Expected<Entry> EntryParser::parse() {
  Entry entry;
  if (Error error = checkKeys())
    return error;
  if (Error error = readShape(entry))
    return error;
  if (Error error = readOffsets(entry))
    return error;
  if (Error error = checkSize(entry))
    return error;
  return entry;
}

static Error checkMetadata(StringRef path, const JsonObject &metadata) {
  StringSet<> seen;
  for (const JsonObject::Member &member : metadata.members) {
    if (!seen.insert(member.key).second)
      return makeFileError(path, "__metadata__: expected each key once, got '" + member.key + "' twice");
    if (!metadata.values.getString(member.key))
      return makeFileError(path, "__metadata__: expected '" + member.key + "' to be a string");
  }
  return Error::success();
}

/// Checks that the tensors cover the buffer without gaps or overlap.
static Error checkLayout(StringRef path, const Entries &entries, uint64_t bufferSize) {
  std::vector<const Entries::value_type *> inOrder;
  for (const auto &entry : entries)
    inOrder.push_back(&entry);
  llvm::stable_sort(inOrder, [](const auto *a, const auto *b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t end = 0;
  for (const auto *entry : inOrder) {
    const auto &[name, tensor] = *entry;
    if (tensor.begin != end)
      return makeFileError(path, "tensor '" + name + "': expected its data to begin at byte " + Twine(end) + ", got " +
                                     Twine(tensor.begin) + ", which " +
                                     (tensor.begin < end ? "overlaps another tensor" : "leaves a hole"));
    if (tensor.end > bufferSize)
      return makeFileError(path, "tensor '" + name + "': expected its data to end within the file's " +
                                     Twine(bufferSize) + " bytes of data, got " + Twine(tensor.end) +
                                     "; the file may be truncated");
    end = tensor.end;
  }
  if (end != bufferSize)
    return makeFileError(path, "expected the file to end with the last tensor, at byte " + Twine(end) +
                                   " of its data, got " + Twine(bufferSize) + " bytes");
  return Error::success();
}

/// Parses the header as JSON. Messages carry the position in words, since a location would be taken for a position in
/// the file.
static Expected<JsonObject> parseJsonHeader(StringRef path, const SourceFile *file) {
  if (!StringRef(*file->text).starts_with("{"))
    return makeFileError(path, "header: expected a JSON object");
  Expected<JsonObject> object = parseJsonObject(file);
  if (object)
    return object;
  Diagnostic reason = takeDiagnostics(object.takeError()).front();
  return makeFileError(path,
                       formatv("header, line {0}, column {1}: {2}", reason.line, reason.column, reason.message).str());
}

static Expected<JsonObject> parseChild(StringRef path, const JsonObject &header, const JsonObject::Member &member) {
  if (!header.values.getObject(member.key))
    return makeFileError(path, "header: expected '" + member.key + "' to be an object");
  return childObject(header, member);
}

Expected<Entries> parseSafetensorsHeader(StringRef path, StringRef text, uint64_t bufferSize) {
  SourceManager sources;
  Expected<JsonObject> header = parseJsonHeader(path, sources.add(path, text.str()));
  if (!header)
    return header.takeError();
  Entries entries;
  StringSet<> seen;
  for (const JsonObject::Member &member : header->members) {
    if (!seen.insert(member.key).second)
      return makeFileError(path, "header: expected each key once, got '" + member.key + "' twice");
    Expected<JsonObject> child = parseChild(path, *header, member);
    if (!child)
      return child.takeError();
    if (member.key == "__metadata__") {
      if (Error error = checkMetadata(path, *child))
        return error;
      continue;
    }
    Expected<Entry> entry = EntryParser(path, member.key, *child).parse();
    if (!entry)
      return entry.takeError();
    entries.emplace(member.key, std::move(*entry));
  }
  if (Error error = checkLayout(path, entries, bufferSize))
    return error;
  return entries;
}

} // namespace kiln
