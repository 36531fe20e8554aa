//===- VocabularyBuilder.h - checks shared by the vocabulary file formats ---===//
#pragma once

#include "runtime/text/Vocabulary.h"
#include "support/text/Json.h"

namespace kiln {

/// Collects tokens, then merges, with their positions in the file, and checks them. The same for all file formats.
class VocabularyBuilder {
public:
  /// A JSON object of `"token": id`.
  Error addTokens(const JsonObject &object);

  /// A token as it is spelled. Error: it is there already.
  Error addToken(StringRef spelling, int64_t id, Location loc);

  /// A token that is matched in text as it stands. It may be in the vocabulary already, under the same id.
  Error addSpecial(StringRef text, int64_t id, Location loc);

  /// Ends the tokens: ids must be 0..n-1, and every byte must have a token. `path` names the vocabulary's
  /// file.
  Error finishTokens(StringRef path);

  /// The next merge by rank; parts are as spelled in the vocabulary. Only after `finishTokens`.
  Error addMerge(StringRef left, Location leftLoc, StringRef right, Location rightLoc);

  /// Ends the merges, which `file` has. Each token must be a byte, a special token, or the result of a merge; no text
  /// could become any other token, so this check finds missing merges. Tokens in angle or square brackets, such as
  /// `<pad>`, may be special tokens that no file lists.
  Error finishMerges(const SourceFile *file) const;

  Vocabulary take() { return std::move(vocabulary); }

private:
  struct Token {
    std::string spelling;
    int64_t id;
    Location loc;
    bool isSpecial;
  };

  Error checkIds() const;
  Error findByteTokens(StringRef path);

  std::vector<Token> tokens; ///< in file order
  StringMap<size_t> indexOf; ///< by spelling, into `tokens`
  DenseMap<std::pair<int32_t, int32_t>, Location> mergeLocs;
  Vocabulary vocabulary;
};

/// Reads the lines of a `merges.txt`. Error: a line without exactly two parts, or an error of the builder.
Error readMergesText(VocabularyBuilder &builder, const SourceFile *file);

/// Reads a `tokenizer.json` of a byte-level BPE without options that change its behaviour.
Error readTokenizerJson(VocabularyBuilder &builder, const SourceFile *file);

/// Reads the keys `tokenizer.ggml.*` of a GGUF file.
Error readGgufVocabulary(VocabularyBuilder &builder, StringRef path);
/// Whether a GGUF file has such keys, or is damaged, which reading it reports.
bool hasGgufVocabulary(StringRef path);

/// The vocabulary of a tokenizer of llm.c. The file has no merges, but GPT-2's vocabularies list their tokens in the
/// order of the merges that made them, so that these can be found again. Error: as of readLlmcTokenizer; no token for a
/// byte; a token twice; a token that the ones before it do not make by one merge.
Expected<Vocabulary> readLlmcVocabulary(StringRef path);

} // namespace kiln
