#include "ir/Lexer.h"

namespace kiln {

static bool isNameChar(char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }

Token Lexer::make(Token::Kind kind, size_t start, size_t skip) {
  return {kind, text.slice(start + skip, at), line, static_cast<unsigned>(start - lineStart + 1)};
}

void Lexer::takeWhile(function_ref<bool(char)> accept) {
  while (at < text.size() && accept(text[at]))
    ++at;
}

void Lexer::skipSpace() {
  for (; at < text.size(); ++at) {
    if (text.substr(at).starts_with("//"))
      takeWhile([](char c) { return c != '\n'; });
    if (at == text.size() || !llvm::isSpace(text[at]))
      return;
    if (text[at] == '\n') {
      ++line;
      lineStart = at + 1;
    }
  }
}

Token Lexer::next() {
  skipSpace();
  size_t start = at;
  if (at == text.size())
    return make(Token::Kind::End, start);
  char c = text[at];
  if (llvm::isAlpha(c) || c == '_')
    return lexWord(start);
  if (c == '%' || c == '@') {
    ++at;
    takeWhile(isNameChar);
    if (at == start + 1)
      return make(Token::Kind::Invalid, start);
    return make(c == '%' ? Token::Kind::Value : Token::Kind::Symbol, start, 1);
  }
  if (llvm::isDigit(c) || (c == '-' && at + 1 < text.size() && llvm::isDigit(text[at + 1])))
    return lexNumber(start);
  if (c == '"')
    return lexString(start);
  StringRef rest = text.substr(at);
  if (rest.starts_with("->") || rest.starts_with("..")) {
    at += 2;
    return make(Token::Kind::Punct, start);
  }
  ++at;
  return make(StringRef("{}()[]:,=").contains(c) ? Token::Kind::Punct : Token::Kind::Invalid, start);
}

Token Lexer::lexWord(size_t start) {
  auto isDash = [&] {
    return words == Words::OfCommandLines && at + 1 < text.size() && text[at] == '-' && llvm::isAlpha(text[at + 1]);
  };
  do {
    ++at;
    takeWhile([](char c) { return llvm::isAlnum(c) || c == '_'; });
  } while (isDash());
  return make(Token::Kind::Word, start);
}

Token Lexer::lexNumber(size_t start) {
  auto isDigit = [](char c) { return llvm::isDigit(c); };
  ++at;
  takeWhile(isDigit);
  bool isFloat = false;
  // "1..64" is a range: a point belongs to the number only if a digit follows.
  if (at + 1 < text.size() && text[at] == '.' && llvm::isDigit(text[at + 1])) {
    isFloat = true;
    ++at;
    takeWhile(isDigit);
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t digits = at + 1;
    if (digits < text.size() && (text[digits] == '-' || text[digits] == '+'))
      ++digits;
    if (digits < text.size() && llvm::isDigit(text[digits])) {
      isFloat = true;
      at = digits;
      takeWhile(isDigit);
    }
  }
  return make(isFloat ? Token::Kind::Float : Token::Kind::Int, start);
}

Token Lexer::lexString(size_t start) {
  ++at;
  takeWhile([](char c) { return c != '"' && c != '\n'; });
  if (at == text.size() || text[at] != '"')
    return make(Token::Kind::Invalid, start);
  Token token = make(Token::Kind::String, start, 1);
  ++at;
  return token;
}

} // namespace kiln
