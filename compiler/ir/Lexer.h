//===- Lexer.h - tokens of IR text ------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

struct Token {
  enum class Kind {
    End,
    Invalid, ///< a character that starts no token, a sigil without a name, or an unterminated string
    Word,    ///< module, matmul, bf16, tanh
    Value,   ///< %name; text is without the sigil
    Symbol,  ///< @name; text is without the sigil
    Int,     ///< 64, -1
    Float,   ///< 1e-05
    String,  ///< "text"; text is the part between the quotes, still escaped
    Punct,   ///< one of { } ( ) [ ] : , = or -> or ..
  };

  Kind kind = Kind::End;
  StringRef text;
  unsigned line = 0, column = 0; ///< of the token's first byte in the file

  bool is(StringRef punct) const { return kind == Kind::Punct && text == punct; }
  bool isWord(StringRef word) const { return kind == Kind::Word && text == word; }
};

/// Splits a file into tokens; `//` comments and white space separate them.
class Lexer {
public:
  /// The characters of words besides letters, digits and '_': on command lines also '-' before a letter, as in
  /// fuse-norm.
  enum class Words { OfIr, OfCommandLines };

  explicit Lexer(const SourceFile *file, Words words = Words::OfIr) : file(file), text(*file->text), words(words) {}

  Token next();
  /// The position of a token; a parse position, which the printer leaves out.
  Location locate(const Token &token) const { return {file, token.line, token.column, /*isParsePosition=*/true}; }

private:
  Token make(Token::Kind kind, size_t start, size_t skip = 0);
  Token lexWord(size_t start);
  Token lexNumber(size_t start);
  Token lexString(size_t start);
  void takeWhile(function_ref<bool(char)> accept);
  void skipSpace();

  const SourceFile *file;
  StringRef text;
  Words words;
  size_t at = 0;
  unsigned line = 1;
  size_t lineStart = 0; ///< updated while lexing: no token spans lines
};

} // namespace kiln
