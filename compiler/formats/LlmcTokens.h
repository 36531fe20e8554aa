//===- LlmcTokens.h - token files of llm.c and nanoGPT ------------------------===//
//
// llm.c's: 256 i32 (magic, version 1, number of tokens), then a u16 a token. nanoGPT's have the tokens alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

constexpr int32_t llmcTokensMagic = 20240520;
/// Of files with tokens of 32 bits, for another vocabulary than GPT-2's.
constexpr int32_t llmcWideTokensMagic = 20240801;

/// The first i32 of a file; none if it is shorter.
std::optional<int32_t> firstInteger(StringRef bytes);

/// The ids of a file, nanoGPT's if it does not begin with llm.c's magic number. `path` is for messages; `vocabulary`
/// is the model's. Error, `PATH: error: byte N: …`: another version; a size that is not that of the tokens; an id that
/// the model does not have.
Expected<std::vector<int32_t>> readTokenFile(StringRef path, StringRef bytes, int64_t vocabulary);

} // namespace kiln
