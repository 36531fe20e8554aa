//===- LlmcModel.h - llm.c's checkpoints --------------------------------------===//
//
// https://github.com/karpathy/llm.c, gpt2_124M.bin: 256 i32, then all parameters, each for all layers, without
// anything between them. Version 3 has f32, version 5 bf16. Matrices are [out,in]; the vocabulary is padded.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "formats/ModelFile.h"
#include "support/files/MappedFile.h"

namespace kiln {

/// The numbers of the header.
struct LlmcSizes {
  int64_t positions, vocabulary, layers, heads, channels, paddedVocabulary;
};

/// A parameter in the order of the file.
struct LlmcParameter {
  StringRef name;                ///< llm.c's: `qkvw`
  StringRef source;              ///< the tensor of a Hugging Face checkpoint; of a layer: behind `h.0.`
  bool isOfLayer;                ///< one for every layer
  SmallVector<int64_t, 2> shape; ///< as stored: [out,in], and with padded rows
};

constexpr int32_t llmcMagic = 20240326;
constexpr int64_t llmcHeaderBytes = 1024;
constexpr int32_t llmcVersionF32 = 3, llmcVersionBF16 = 5;

/// All parameters. The products of their shapes may overflow if the sizes are not those of a file.
std::vector<LlmcParameter> llmcParameters(const LlmcSizes &sizes);

/// Whether the bytes begin as those of llm.c's checkpoints.
bool isLlmcModel(ArrayRef<uint8_t> bytes);

/// Errors as of openModelFile.
Expected<std::shared_ptr<const ModelFile>> openLlmcModel(MappedFile mapping);

} // namespace kiln
