//===- VocabularyBuilder.h - checks shared by the vocabulary file formats ---===//
#pragma once

#include "runtime/text/Vocabulary.h"
#include "support/Json.h"

namespace kiln {

/// Collects tokens, then merges, with their positions in whatever format they were written, and checks them.
class VocabularyBuilder {
public:
  /// A JSON object of `"token": id`.
  Error addTokens(const JsonObject &object);

  /// A token that is matched in text as it stands. It may be in the vocabulary already, under the same id.
  Error addSpecial(StringRef text, int64_t id, Location loc);

  /// Ends the tokens: ids must be 0..n-1, and every byte must have a token. `path` names the vocabulary's
  /// file.
  Error finishTokens(StringRef path);

  /// The next merge by rank; parts are as spelled in the vocabulary. Only after `finishTokens`.
  Error addMerge(StringRef left, Location leftLoc, StringRef right, Location rightLoc);

  /// Ends the merges, which `file` has: each token must be a byte, a special token, or what a merge makes; no text
  /// could become another. So merges that are missing show. Tokens in angle or square brackets, `<pad>`, may be special
  /// ones that no file lists.
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

/// Reads the lines of a `merges.txt`. Error: a line without exactly two parts, or what the builder refuses.
Error readMergesText(VocabularyBuilder &builder, const SourceFile *file);

/// Reads a `tokenizer.json` of a byte-level BPE without options that change what it does.
Error readTokenizerJson(VocabularyBuilder &builder, const SourceFile *file);

} // namespace kiln
