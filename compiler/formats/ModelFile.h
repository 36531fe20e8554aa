//===- ModelFile.h - a model in one file -----------------------------------===//
//
// GGUF files and llm.c's .bin, in the terms of a Hugging Face directory: the text of a config.json, and tensors under
// the names and with the shapes that they have there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/model/DType.h"

namespace kiln {

/// Types of a tensor's elements. Q8 is ggml's Q8_0: blocks of 32 elements in a row, an f16 factor and 32 i8 each.
enum class StoredType : uint8_t { F32, F16, BF16, Q8 };

/// `F32`, `F16`, `BF16`, `Q8_0`.
StringRef storedTypeName(StoredType type);

/// The bytes of so many elements; nothing if they are not whole blocks, or too many for 63 bits.
std::optional<int64_t> storedBytes(StoredType type, int64_t elements);

/// The type that a tensor of this one is given as, which holds all its values: Q8 as F32.
DType dtypeOf(StoredType type);
/// The reverse for types of floats.
StoredType storedTypeOf(DType dtype);

/// Whether the tensor of this name in a Hugging Face checkpoint, `h.0.attn.c_attn.weight`, is a matrix that GGUF and
/// llm.c store as [out,in].
bool isStoredTransposed(StringRef huggingFaceName);

/// Elements of a block of Q8_0, and its bytes.
constexpr int64_t q8BlockElements = 32, q8BlockBytes = 34;

struct StoredTensor {
  std::string name; ///< in the file: `blk.0.attn_qkv.weight`
  StoredType type = StoredType::F32;
  /// The type that the tensor had before kiln export wrote it as F32, as ggml wants vectors; its elements are exact in
  /// it.
  std::optional<StoredType> originalType = {};
  SmallVector<int64_t, 2> shape = {}; ///< of the tensor in a Hugging Face checkpoint
  bool isTransposed = false;          ///< the bytes are those of the transposed matrix, row-major
  ArrayRef<uint8_t> bytes;
};

struct ModelFile {
  std::string path;
  std::string format;                                       ///< for people: `GGUF, version 3`
  std::string config;                                       ///< the text of config.json that describes the model
  std::map<std::string, StoredTensor, std::less<>> tensors; ///< by name in a Hugging Face checkpoint
  std::shared_ptr<const void> mapping;                      ///< holds the tensors' bytes
  /// The name that the format has for a tensor, for messages about one that is missing; null: Hugging Face's.
  std::optional<std::string> (*nameInFile)(StringRef huggingFaceName) = nullptr;
};

/// Whether MODEL is a file to be opened here: a regular file, and neither a .toml nor IR, .kiln.
bool isModelFile(StringRef path);

/// Opens a GGUF file of a gpt2 or llm.c's model, by its first bytes. Nothing but headers is read. Error, with the byte
/// or the tensor: neither of them (for PyTorch's files, the message has the remedy); counts or sizes that the file
/// does not have; another architecture; a tensor that a GPT-2 lacks.
Expected<std::shared_ptr<const ModelFile>> openModelFile(StringRef path);

} // namespace kiln
