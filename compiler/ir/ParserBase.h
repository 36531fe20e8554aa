//===- ParserBase.h - tokens, types and attributes of IR text ---------------===//
#pragma once

#include "ir/IR.h"
#include "ir/Lexer.h"

namespace kiln {

/// The part of the parser that does not know ops; it also reads lists on command lines. Every method returns at the
/// first error and leaves the token that caused it in place.
class ParserBase {
protected:
  explicit ParserBase(const SourceFile *file, Lexer::Words words = Lexer::Words::OfIr) : lexer(file, words) {
    advance();
  }

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
  /// The name of a file, which may have any bytes.
  Expected<std::string> expectFileName();

  // Types and attributes
  Expected<Type> parseType();
  Expected<Dim> parseDimUse();
  Expected<SmallVector<int64_t, 2>> parseShape();
  /// `{a = 1, b = [2, c]}`; in the order of the text. Error: nested more than 16 deep, a name that is given twice.
  Expected<std::vector<NamedAttribute>> parseAttributes(int depth = 0);
  Expected<AttributeMap> parseAttributeMap(int depth = 0);
  /// Parses an optional `attributes {…}`. Error, at its place: an attribute that is not among `specs`.
  Error parseHeadAttributes(ArrayRef<AttributeSpec> specs, AttributeMap &attributes);
  Expected<Attribute> parseAttribute(int depth);
  Expected<Attribute> parseAttributeList(int depth);

  Lexer lexer;
  Token token;
  std::unique_ptr<Module> module;
};

} // namespace kiln
