#include "formats/ModelFile.h"

#include "formats/GgufModel.h"
#include "formats/LlmcModel.h"
#include "support/Diagnostic.h"

namespace kiln {

StringRef storedTypeName(StoredType type) {
  static constexpr StringRef names[] = {"F32", "F16", "BF16", "Q8_0"};
  return names[static_cast<int>(type)];
}

std::optional<int64_t> storedBytes(StoredType type, int64_t elements) {
  bool isBlocks = type == StoredType::Q8;
  int64_t unit = isBlocks ? q8BlockElements : 1;
  int64_t size = isBlocks ? q8BlockBytes : type == StoredType::F32 ? 4 : 2, bytes = 0;
  if (elements % unit != 0 || __builtin_mul_overflow(elements / unit, size, &bytes))
    return std::nullopt;
  return bytes;
}

DType dtypeOf(StoredType type) {
  switch (type) {
  case StoredType::F16:
    return DType::F16;
  case StoredType::BF16:
    return DType::BF16;
  case StoredType::F32:
  case StoredType::Q8:
    return DType::F32;
  }
  llvm_unreachable("every type is named above");
}

StoredType storedTypeOf(DType dtype) {
  assert(isFloat(dtype) && "tensors have floats");
  return dtype == DType::F16 ? StoredType::F16 : dtype == DType::BF16 ? StoredType::BF16 : StoredType::F32;
}

bool isStoredTransposed(StringRef name) {
  return llvm::any_of(std::initializer_list<StringRef>{".c_attn.weight", ".c_proj.weight", ".c_fc.weight"},
                      [&](StringRef ending) { return name.ends_with(ending); });
}

bool isModelFile(StringRef path) {
  return llvm::sys::fs::is_regular_file(path) && !path.ends_with(".toml") && !path.ends_with(".kiln");
}

/// What a file is that is no model here, with the remedy if there is one.
static std::string describeOther(StringRef bytes) {
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80\x02"))
    return "a file of PyTorch; convert it with tools/import_torch.py";
  if (bytes.starts_with("FUGG"))
    return "a big-endian GGUF file; convert it to little-endian";
  if (bytes.empty())
    return "an empty file";
  if (bytes.size() > 8 && bytes[8] == '{')
    return "a safetensors file; give the directory that has it and config.json";
  return "bytes " + llvm::toHex(bytes.take_front(4), /*LowerCase=*/true);
}

Expected<std::shared_ptr<const ModelFile>> openModelFile(StringRef path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  if (GgufFile::isGguf(file->bytes()))
    return openGgufModel(std::move(*file));
  if (isLlmcModel(file->bytes()))
    return openLlmcModel(std::move(*file));
  StringRef bytes(reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size());
  return makeFileError(path, "expected a GGUF file or a model of llm.c, got " + describeOther(bytes));
}

} // namespace kiln
