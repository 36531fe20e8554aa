//===- Tokenizer.h - text to token ids and back -----------------------------===//
//
// GPT-2's byte-level BPE: PreTokenizer.h cuts the text, BytePairEncoder.h merges the bytes of each piece,
// Vocabulary.h says which files it comes from. Ids are the same as those of OpenAI's encoder and of Hugging
// Face's tokenizers on every input. No BOS and no leading space are added.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/text/BytePairEncoder.h"

namespace kiln {

class Tokenizer {
public:
  /// Loads a directory, as loadVocabulary does, with its errors.
  static Expected<Tokenizer> load(StringRef directory);

  explicit Tokenizer(Vocabulary vocabulary);

  /// The ids of a text. Every text has some: invalid UTF-8 counts as U+FFFD. Special tokens in the text
  /// become their ids only with `special`, the longest where several match; otherwise they are text like any
  /// other.
  std::vector<int32_t> encode(StringRef text, bool special = false) const;

  /// The bytes that ids stand for, in general not valid UTF-8. Error: an id that is no token.
  Expected<std::string> decode(ArrayRef<int32_t> ids) const;

  /// The bytes of one token. Error: the id is no token.
  Expected<StringRef> tokenBytes(int32_t id) const;

  /// Number of tokens; a model's vocabulary may be larger (padded), but not smaller.
  int64_t vocabSize() const { return static_cast<int64_t>(vocabulary.tokens.size()); }

  /// The special token `<|endoftext|>`, if the vocabulary has it.
  std::optional<int32_t> endOfText() const;

private:
  /// The special token that `text` starts with, with its length; the longest if there are several.
  std::optional<std::pair<int32_t, size_t>> matchSpecial(StringRef text) const;
  void encodeOrdinary(StringRef text, std::vector<int32_t> &ids, BytePairEncoder::Scratch &scratch) const;

  Vocabulary vocabulary;
  BytePairEncoder encoder;
  std::array<bool, 256> startsSpecial{}; ///< by first byte
};

/// Turns a stream of ids into text as they come. A character whose bytes are spread over several tokens is
/// held back until it is complete. All pieces together are replaceInvalidUtf8 of the ids' bytes.
class StreamingDecoder {
public:
  /// The tokenizer must outlive the decoder.
  explicit StreamingDecoder(const Tokenizer &tokenizer) : tokenizer(&tokenizer) {}

  /// The text that this id completes: valid UTF-8, possibly empty. Error: an id that is no token.
  Expected<std::string> push(int32_t id);

  /// The end of the stream: U+FFFD if an incomplete character was held back, else nothing.
  std::string finish();

private:
  const Tokenizer *tokenizer;
  std::string tail;
};

} // namespace kiln
