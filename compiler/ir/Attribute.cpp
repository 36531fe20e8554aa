#include "ir/Attribute.h"

#include <charconv>

namespace kiln {

Attribute::Kind Attribute::kind() const {
  switch (value.index()) {
  case 0:
    return Kind::Int;
  case 1:
    return Kind::Float;
  case 2:
    return Kind::Bool;
  case 3:
    return std::get<Word>(value).quoted ? Kind::Text : Kind::Ident;
  case 4:
    return Kind::List;
  default:
    return Kind::Dict;
  }
}

/// Prints the shortest text that reads back as the same double, in a form that is always recognised as a float.
static void printFloat(raw_ostream &os, double value) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  StringRef digits(buffer, end - buffer);
  os << digits;
  if (digits.find_first_of(".e") == StringRef::npos)
    os << ".0";
}

void Attribute::print(raw_ostream &os) const {
  switch (kind()) {
  case Kind::Int:
    os << asInt();
    break;
  case Kind::Float:
    printFloat(os, asFloat());
    break;
  case Kind::Bool:
    os << (asBool() ? "true" : "false");
    break;
  case Kind::Ident:
    os << asString();
    break;
  case Kind::Text:
    os << '"';
    llvm::printEscapedString(asString(), os);
    os << '"';
    break;
  case Kind::List:
    os << '[';
    llvm::interleaveComma(asList(), os, [&](const Attribute &item) { item.print(os); });
    os << ']';
    break;
  case Kind::Dict:
    printAttributes(os, asDict());
    break;
  }
}

std::string Attribute::str() const {
  std::string text;
  raw_string_ostream os(text);
  print(os);
  return text;
}

void printAttributes(raw_ostream &os, const AttributeMap &attributes) {
  os << '{';
  llvm::interleaveComma(attributes, os, [&](const auto &entry) {
    os << entry.first << " = ";
    entry.second.print(os);
  });
  os << '}';
}

AttributeMap toMap(ArrayRef<NamedAttribute> attributes) {
  AttributeMap map;
  for (const NamedAttribute &attribute : attributes)
    map.insert({attribute.name, attribute.value});
  return map;
}

const Attribute *findAttribute(const AttributeMap &attributes, StringRef name) {
  auto it = attributes.find(name);
  return it == attributes.end() ? nullptr : &it->second;
}

const Attribute *findAttribute(const AttributeMap &attributes, StringRef name, Attribute::Kind kind) {
  const Attribute *found = findAttribute(attributes, name);
  return found && found->kind() == kind ? found : nullptr;
}

StringRef attributeKindName(Attribute::Kind kind) {
  static constexpr StringRef names[] = {"an integer", "a float", "true or false", "a name",
                                        "a string",   "a list",  "a dictionary"};
  return names[static_cast<int>(kind)];
}

} // namespace kiln
