//===- VocabularyText.h - writing a vocabulary's files ------------------------===//
#pragma once

#include "runtime/text/Vocabulary.h"

namespace kiln {

/// The spelling of a token in vocabulary files: bytes by their characters (ByteAlphabet.h), a special token as it is.
std::string tokenSpelling(const Vocabulary &vocabulary, int32_t id);

/// `left right`, as merges are spelled.
std::string mergeSpelling(const Vocabulary &vocabulary, const Vocabulary::Merge &merge);

/// The contents of vocab.json, merges.txt and, if there are special tokens other than `<|endoftext|>`,
/// added_tokens.json, by name. loadVocabulary reads the same vocabulary from them.
std::map<std::string, std::string> vocabularyFiles(const Vocabulary &vocabulary);

} // namespace kiln
