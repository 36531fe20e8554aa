//===- Attribute.h - compile-time values on ops, functions and modules ------===//
#pragma once

#include "support/SourceManager.h"

namespace kiln {

class Attribute;
/// Ordered by name: attributes print in this order.
using AttributeMap = std::map<std::string, Attribute, std::less<>>;

/// 64 | 1e-05 | true | tanh | "text" | [64, 1] | {m = 64, n = 64}
class Attribute {
public:
  enum class Kind { Int, Float, Bool, Ident, Text, List, Dict };
  using List = std::vector<Attribute>;

  Attribute(int64_t value) : value(value) {}
  Attribute(int value) : value(static_cast<int64_t>(value)) {}
  Attribute(double value) : value(value) {}
  Attribute(bool value) : value(value) {}
  Attribute(List value) : value(std::move(value)) {}
  Attribute(AttributeMap value) : value(std::make_shared<const AttributeMap>(std::move(value))) {}
  static Attribute ident(StringRef name) { return Attribute(Word{name.str(), false}); }
  static Attribute text(StringRef text) { return Attribute(Word{text.str(), true}); }

  Kind kind() const;

  /// Accessors of a known kind; the verifier has checked kinds before a pass reads them.
  int64_t asInt() const { return std::get<int64_t>(value); }
  double asFloat() const { return std::get<double>(value); }
  bool asBool() const { return std::get<bool>(value); }
  StringRef asString() const { return std::get<Word>(value).text; }
  const List &asList() const { return std::get<List>(value); }
  const AttributeMap &asDict() const { return *std::get<std::shared_ptr<const AttributeMap>>(value); }

  void print(raw_ostream &os) const;
  std::string str() const;
  bool operator==(const Attribute &other) const { return kind() == other.kind() && str() == other.str(); }

private:
  /// An identifier, or quoted text.
  struct Word {
    std::string text;
    bool quoted;
  };
  explicit Attribute(Word word) : value(std::move(word)) {}

  std::variant<int64_t, double, bool, Word, List, std::shared_ptr<const AttributeMap>> value;
};

/// The attribute with this name, or null.
const Attribute *findAttribute(const AttributeMap &attributes, StringRef name);
/// The attribute with this name and kind, or null.
const Attribute *findAttribute(const AttributeMap &attributes, StringRef name, Attribute::Kind kind);

/// `name = value` in a text, with the positions of both.
struct NamedAttribute {
  std::string name;
  Attribute value;
  Location nameLoc = {}, valueLoc = {};
};
AttributeMap toMap(ArrayRef<NamedAttribute> attributes);

/// `{a = 1, b = 2}`
void printAttributes(raw_ostream &os, const AttributeMap &attributes);

/// The name of a kind in messages.
StringRef attributeKindName(Attribute::Kind kind);

} // namespace kiln
