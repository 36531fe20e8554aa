//===- LlmcTokenizer.h - llm.c's gpt2_tokenizer.bin -------------------------===//
//
// 256 i32 (magic, version, number of tokens, id of the end-of-text token), then of each token a u8 length and its
// bytes. Version 1 has no id of the end-of-text token: it is GPT-2's 50256.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

struct LlmcTokenizer {
  std::vector<std::string> tokens; ///< the bytes of each, by id
  int32_t endOfText = 0;
};

constexpr int32_t llmcTokenizerMagic = 20240328;

/// The file beside a model of llm.c: `gpt2_tokenizer.bin` in its folder.
std::string llmcTokenizerBeside(StringRef model);

/// Whether this is a file that begins as llm.c's tokenizers.
bool isLlmcTokenizer(StringRef path);

/// Error, `PATH: error: byte N: …`: not such a file, or of another version; a count or a token that the file does not
/// hold, or bytes behind the last token; an end-of-text token that is no token.
Expected<LlmcTokenizer> readLlmcTokenizer(StringRef path);

/// The bytes of such a file, version 2. Error: a token of more than 255 bytes.
Expected<std::string> writeLlmcTokenizer(const LlmcTokenizer &tokenizer);

} // namespace kiln
