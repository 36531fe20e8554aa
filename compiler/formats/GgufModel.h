//===- GgufModel.h - a GPT-2 in a GGUF file ----------------------------------===//
#pragma once

#include "formats/Gguf.h"
#include "formats/ModelFile.h"

namespace kiln {

/// ggml's name of a tensor of a Hugging Face checkpoint: `h.0.attn.c_attn.weight` is `blk.0.attn_qkv.weight`. Nothing
/// if GPT-2 has no such tensor.
std::optional<std::string> ggufName(StringRef huggingFaceName);

/// The reverse.
std::optional<std::string> huggingFaceName(StringRef ggufName);

/// ggml's number of a type of elements.
uint32_t ggufTypeNumber(StoredType type);

/// The key of the names of tensors that had this type before they were written as F32.
std::string widenedKey(StoredType type);

/// Errors as of openModelFile.
Expected<std::shared_ptr<const ModelFile>> openGgufModel(MappedFile mapping);

} // namespace kiln
