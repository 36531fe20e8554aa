#include "ir/ParserBase.h"

#include "support/Diagnostic.h"

#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

Error ParserBase::expected(const Twine &what) const {
  if (token.kind == Token::Kind::End)
    return makeError(here(), "expected " + what + ", got the end of the text");
  if (token.kind == Token::Kind::Invalid && token.text.starts_with("\""))
    return makeError(here(), "expected '\"' at the end of the string");
  static constexpr StringRef sigils[] = {"", "", "", "%", "@", "", "", "\"", ""};
  StringRef sigil = sigils[static_cast<int>(token.kind)];
  std::string got;
  raw_string_ostream os(got);
  if (token.kind == Token::Kind::Invalid)
    llvm::printEscapedString(token.text, os); // it may be a byte that a terminal would obey
  else
    os << sigil << token.text << (sigil == "\"" ? sigil : "");
  return makeError(here(), "expected " + what + ", got '" + got + "'");
}

Error ParserBase::expectPunct(StringRef punct) {
  return consumePunct(punct) ? Error::success() : expected("'" + punct + "'");
}

bool ParserBase::consumePunct(StringRef punct) {
  if (!token.is(punct))
    return false;
  advance();
  return true;
}

bool ParserBase::consumeWord(StringRef word) {
  if (!token.isWord(word))
    return false;
  advance();
  return true;
}

Expected<StringRef> ParserBase::expect(Token::Kind kind, StringRef what) {
  if (token.kind != kind)
    return expected(what);
  StringRef text = token.text;
  advance();
  return text;
}

Expected<int64_t> ParserBase::expectInt() {
  int64_t value = 0;
  if (token.kind != Token::Kind::Int)
    return expected("an integer");
  if (token.text.getAsInteger(10, value))
    return makeError(here(), "expected an integer of 64 bits, got " + token.text);
  advance();
  return value;
}

Expected<std::string> ParserBase::expectString() {
  Location loc = here();
  Expected<std::string> text = expectFileName();
  if (text && !json::isUTF8(*text))
    return makeError(loc, "expected UTF-8 in a string");
  return text;
}

Expected<std::string> ParserBase::expectFileName() {
  Location loc = here();
  Expected<StringRef> raw = expect(Token::Kind::String, "a string");
  if (!raw)
    return raw.takeError();
  std::string text;
  for (StringRef rest = *raw; !rest.empty();) {
    if (!rest.consume_front("\\")) {
      text += rest.front();
      rest = rest.drop_front();
    } else if (rest.consume_front("\\")) {
      text += '\\';
    } else if (rest.size() >= 2 && llvm::isHexDigit(rest[0]) && llvm::isHexDigit(rest[1])) {
      text += static_cast<char>(llvm::hexFromNibbles(rest[0], rest[1]));
      rest = rest.drop_front(2);
    } else {
      return makeError(loc, "expected \\\\ or two hexadecimal digits after '\\' in a string");
    }
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

Expected<Type> ParserBase::parseType() {
  Location loc = here();
  std::optional<DType> dtype = token.kind == Token::Kind::Word ? parseDType(token.text) : std::nullopt;
  if (!dtype)
    return expected("a type, like f32[B,768]");
  advance();
  if (Error error = expectPunct("["))
    return error;
  Type type(*dtype, {});
  do {
    Expected<Dim> dim = parseDimUse();
    if (!dim)
      return dim.takeError();
    type.shape.push_back(*dim);
  } while (consumePunct(","));
  if (Error error = expectPunct("]"))
    return error;
  if (!type.largestBytes())
    return makeError(loc, "expected a type of at most 2^48 bytes, got " + type.str());
  return type;
}

Expected<Dim> ParserBase::parseDimUse() {
  Location loc = here();
  if (token.kind == Token::Kind::Word) {
    const DimSymbol *symbol = module->findDim(token.text);
    if (!symbol)
      return makeError(loc, "dim " + token.text + " is not defined");
    advance();
    return Dim(symbol);
  }
  if (token.kind != Token::Kind::Int)
    return expected("an extent: a number or a dim");
  Expected<int64_t> value = expectInt();
  if (!value)
    return value.takeError();
  if (*value < 1)
    return makeError(loc, "expected an extent of 1 or more, got " + Twine(*value));
  return Dim(*value);
}

Expected<SmallVector<int64_t, 2>> ParserBase::parseShape() {
  SmallVector<int64_t, 2> shape;
  advance();
  do {
    Location loc = here();
    Expected<int64_t> extent = expectInt();
    if (!extent)
      return extent.takeError();
    if (*extent < 1)
      return makeError(loc, "expected an extent of 1 or more, got " + Twine(*extent));
    shape.push_back(*extent);
  } while (consumePunct(","));
  if (Error error = expectPunct("]"))
    return error;
  return shape;
}

Expected<std::vector<NamedAttribute>> ParserBase::parseAttributes(int depth) {
  if (Error error = expectPunct("{"))
    return error;
  std::vector<NamedAttribute> attributes;
  StringSet<> names;
  if (consumePunct("}"))
    return attributes;
  do {
    Location loc = here();
    Expected<StringRef> name = expect(Token::Kind::Word, "an attribute's name");
    if (!name)
      return name.takeError();
    if (!names.insert(*name).second)
      return makeError(loc, "'" + *name + "' is given twice");
    if (!consumePunct("="))
      return expected("'=' after '" + *name + "'");
    Location valueLoc = here();
    Expected<Attribute> value = parseAttribute(depth);
    if (!value)
      return value.takeError();
    attributes.push_back({name->str(), std::move(*value), loc, valueLoc});
  } while (consumePunct(","));
  if (Error error = expectPunct("}"))
    return error;
  return attributes;
}

Expected<AttributeMap> ParserBase::parseAttributeMap(int depth) {
  auto attributes = parseAttributes(depth);
  if (!attributes)
    return attributes.takeError();
  return toMap(*attributes);
}

Error ParserBase::parseHeadAttributes(ArrayRef<AttributeSpec> specs, AttributeMap &attributes) {
  if (!consumeWord("attributes"))
    return Error::success();
  auto parsed = parseAttributes();
  if (!parsed)
    return parsed.takeError();
  for (const NamedAttribute &attribute : *parsed)
    if (std::string problem = attributeProblem(specs, attribute.name, attribute.value); !problem.empty())
      return makeError(findSpec(specs, attribute.name) ? attribute.valueLoc : attribute.nameLoc, problem);
  attributes = toMap(*parsed);
  return Error::success();
}

Expected<Attribute> ParserBase::parseAttribute(int depth) {
  if (depth > 16)
    return makeError(here(), "attributes are nested too deeply");
  switch (token.kind) {
  case Token::Kind::Int: {
    Expected<int64_t> value = expectInt();
    return value ? Expected<Attribute>(Attribute(*value)) : value.takeError();
  }
  case Token::Kind::Float: {
    double value = 0;
    if (token.text.getAsDouble(value) || !std::isfinite(value))
      return makeError(here(), "expected a finite number, got " + token.text);
    advance();
    return Attribute(value);
  }
  case Token::Kind::String: {
    Expected<std::string> text = expectString();
    return text ? Expected<Attribute>(Attribute::text(*text)) : text.takeError();
  }
  case Token::Kind::Word: {
    StringRef word = token.text;
    advance();
    return word == "true" || word == "false" ? Attribute(word == "true") : Attribute::ident(word);
  }
  default:
    break;
  }
  if (token.is("["))
    return parseAttributeList(depth);
  if (token.is("{")) {
    Expected<AttributeMap> dict = parseAttributeMap(depth + 1);
    return dict ? Expected<Attribute>(Attribute(std::move(*dict))) : dict.takeError();
  }
  return expected("an attribute's value");
}

Expected<Attribute> ParserBase::parseAttributeList(int depth) {
  Attribute::List items;
  advance();
  if (consumePunct("]"))
    return Attribute(std::move(items));
  do {
    Expected<Attribute> item = parseAttribute(depth + 1);
    if (!item)
      return item;
    items.push_back(std::move(*item));
  } while (consumePunct(","));
  if (Error error = expectPunct("]"))
    return error;
  return Attribute(std::move(items));
}

} // namespace kiln
