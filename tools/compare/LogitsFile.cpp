#include "tools/compare/LogitsFile.h"

#include "support/Diagnostic.h"

namespace kiln {

static Error fail(const SafetensorsFile &file, StringRef tensor, const Twine &message) {
  return makeFileError(file.path(), "tensor '" + tensor + "': " + message);
}

static Error checkTensors(const SafetensorsFile &file) {
  for (auto [name, rank, shape] :
       {std::tuple("tokens", 2, "[sequences, tokens]"), std::tuple("logits", 3, "[sequences, tokens, vocabulary]")}) {
    auto it = file.tensors().find(name);
    if (it == file.tensors().end())
      return makeFileError(file.path(), "expected tensors 'tokens' and 'logits', got no '" + Twine(name) +
                                            "'; a model's own file is named by its directory");
    if (it->second.shape.size() != static_cast<size_t>(rank) || llvm::is_contained(it->second.shape, 0))
      return fail(file, name, "expected a shape " + Twine(shape) + " without a 0");
  }
  if (file.tensors().size() != 2)
    return makeFileError(file.path(),
                         "expected tensors 'tokens' and 'logits' alone, got " + Twine(file.tensors().size()));
  if (ArrayRef(file.shape("tokens")) != file.shape("logits").drop_back())
    return fail(file, "tokens", "expected the first two sizes of 'logits'");
  return Error::success();
}

/// The ids, of either type.
static Expected<std::vector<int32_t>> readIds(const SafetensorsFile &file, int64_t vocabulary) {
  const SafetensorsFile::Entry &entry = file.tensors().find("tokens")->second;
  if (entry.dtype != "I32" && entry.dtype != "I64")
    return fail(file, "tokens", "expected type I32 or I64, got " + entry.dtype);
  size_t size = entry.dtype == "I32" ? 4 : 8;
  ArrayRef<uint8_t> bytes = file.bytes(entry);
  std::vector<int32_t> ids(bytes.size() / size);
  for (auto [index, id] : llvm::enumerate(ids)) {
    int64_t wide = 0;
    int32_t narrow = 0;
    std::memcpy(size == 8 ? static_cast<void *>(&wide) : &narrow, bytes.data() + index * size, size);
    wide += narrow;
    if (wide < 0 || wide >= vocabulary)
      return fail(file, "tokens",
                  "element " + Twine(index) + ": expected an id from 0 to " + Twine(vocabulary - 1) + ", got " +
                      Twine(wide));
    id = static_cast<int32_t>(wide);
  }
  return ids;
}

Expected<LogitsFile> LogitsFile::open(StringRef path) {
  Expected<std::shared_ptr<const SafetensorsFile>> file = SafetensorsFile::open(path);
  if (!file)
    return file.takeError();
  if (Error error = checkTensors(**file))
    return error;
  LogitsFile opened;
  if (Error error = (*file)->tensor("logits").moveInto(opened.view))
    return error;
  if (Error error = readIds(**file, opened.vocabulary()).moveInto(opened.ids))
    return error;
  return opened;
}

std::vector<float> LogitsFile::logits(int64_t sequence, int64_t token) const {
  std::vector<float> row(vocabulary());
  int64_t bytes = vocabulary() * dtypeSize(view.dtype);
  const char *begin = reinterpret_cast<const char *>(view.bytes.data()) + (sequence * length() + token) * bytes;
  for (auto [id, logit] : llvm::enumerate(row))
    logit = loadElement(begin, view.dtype, static_cast<int64_t>(id));
  return row;
}

} // namespace kiln
