//===- Convert.h - writing models in other formats ----------------------------===//
#pragma once

#include "tools/convert/ConvertedModel.h"

namespace kiln {

/// What `kiln import` shows of a model: its format, sizes, tensors and vocabulary, in lines.
std::string describe(const ConvertedModel &model);

/// Writes a model in one file in Hugging Face's form: config.json, model.safetensors and, if it has a vocabulary,
/// vocab.json, merges.txt and added_tokens.json. Tensors keep their types and bits; Q8_0 becomes F32. The directory is
/// new, empty, or the result of an earlier import. Error: errors of reading and writing; then nothing is written.
Error writeHuggingFace(const ConvertedModel &model, StringRef directory);

/// Writes a GGUF file with the vocabulary inside. Matrices and embeddings of tokens keep their types; vectors and
/// positions become F32, as ggml's programs want them, and the file says what they were. Error: a model that the format
/// cannot describe, or errors of reading and writing; then nothing is written.
Error writeGguf(const ConvertedModel &model, StringRef path);

/// Writes llm.c's .bin, bf16 if all tensors are, else fp32, and `gpt2_tokenizer.bin` beside it if the model has a
/// vocabulary. Error: as of writeGguf; another gpt2_tokenizer.bin is there already.
Error writeLlmc(const ConvertedModel &model, StringRef path);

/// Refuses what neither GGUF nor llm.c's format can describe: activations other than the tanh GELU, scores that are
/// scaled otherwise. `format` is for the message.
Error expectPlainGpt2(const ConvertedModel &model, StringRef format);

} // namespace kiln
