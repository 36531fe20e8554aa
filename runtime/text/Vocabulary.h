//===- Vocabulary.h - the files of a byte-level BPE tokenizer ---------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

#include <array>

namespace kiln {

/// The checked content of a tokenizer's files.
struct Vocabulary {
  /// Two neighbouring tokens that become one; its rank is its index.
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t result;
  };

  std::vector<std::string> tokens;                      ///< bytes of each token, by id
  std::array<int32_t, 256> byteTokens;                  ///< the token of each single byte
  std::vector<Merge> merges;                            ///< no pair of (left, right) twice
  std::map<std::string, int32_t, std::less<>> specials; ///< text and id; none is empty
};

/// Loads a vocabulary. Of a directory: `vocab.json` (or `encoder.json`) with `merges.txt` (or `vocab.bpe`) and, if
/// present, `added_tokens.json`; else `tokenizer.json`; else llm.c's `gpt2_tokenizer.bin`. Of a GGUF file: the
/// tokenizer inside. Of a model of llm.c: that of the folder in which it is. Of llm.c's tokenizer: itself. Special
/// tokens are `<|endoftext|>`, if the vocabulary has it, and the added ones; of llm.c, its end-of-text token.
///
/// Errors, with file, line and column, or with key and item: no such files; not JSON; an id that is used twice or is
/// not in 0..n-1 for n tokens; no token for a byte; a merge that is not two tokens whose concatenation is a third, or
/// is listed twice; a token of several bytes, and not special, that no merge makes; a tokenizer whose model,
/// normaliser, pre-tokenizer or post-processor is not GPT-2's.
Expected<Vocabulary> loadVocabulary(StringRef path);

/// The files that loadVocabulary reads for a path, which may be damaged; empty if there is no vocabulary.
std::vector<std::string> filesOfVocabulary(StringRef path);

/// Whether there is a vocabulary for loadVocabulary, sound or not.
bool hasVocabulary(StringRef path);

} // namespace kiln
