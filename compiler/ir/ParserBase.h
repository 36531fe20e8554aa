//===- ParserBase.h - tokens, types and attributes of IR text ---------------===//
#pragma once

#include "ir/IR.h"
#include "ir/Lexer.h"

namespace kiln {

/// The part of the parser that knows nothing of ops. Every method returns at the first error and leaves the token
/// that caused it in place.
class ParserBase {
protected:
  explicit ParserBase(const SourceFile *file) : lexer(file) { advance(); }

  // Tokens
  void advance() { token = lexer.next(); }
  Location here() const { return lexer.locate(token); }
  Error expected(const Twine &what) const;
  Error expectPunct(StringRef punct);
  bool consumePunct(StringRef punct);
  bool consumeWord(StringRef word);
  Expected<StringRef> expect(Token::Kind kind, StringRef what);
  Expected<int64_t> expectInt();
  Expected<std::string> expectString();

  // Types and attributes
  Expected<Type> parseType();
  Expected<Dim> parseDimUse();
  Expected<SmallVector<int64_t, 2>> parseShape();
  Error parseOptionalAttributes(AttributeMap &attributes);
  Expected<AttributeMap> parseAttributes(int depth);
  Expected<Attribute> parseAttribute(int depth);
  Expected<Attribute> parseAttributeList(int depth);

  Lexer lexer;
  Token token;
  std::unique_ptr<Module> module;
};

} // namespace kiln
