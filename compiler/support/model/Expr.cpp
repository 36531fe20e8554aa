#include "support/model/Expr.h"

#include "support/Diagnostic.h"

#include <limits>

namespace kiln {

struct Expr::Node {
  Kind kind;
  int64_t value = 0;
  std::string name;
  std::shared_ptr<const Node> lhs, rhs;
};

Expr::Expr(int64_t constant) : node(std::make_shared<Node>(Node{Kind::Constant, constant, {}, {}, {}})) {}

Expr Expr::name(StringRef name) { return Expr(std::make_shared<Node>(Node{Kind::Name, 0, name.str(), {}, {}})); }

/// The value of one operation; nothing on int64 overflow.
static std::optional<int64_t> apply(Expr::Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (kind) {
  case Expr::Kind::Add:
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case Expr::Kind::Mul:
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case Expr::Kind::CeilDiv:
    return a / b + (a % b != 0);
  case Expr::Kind::Min:
    return std::min(a, b);
  case Expr::Kind::Max:
    return std::max(a, b);
  case Expr::Kind::Constant:
  case Expr::Kind::Name:
    break;
  }
  llvm_unreachable("a leaf has nothing to apply");
}

Expr::Kind Expr::kind() const { return node->kind; }
StringRef Expr::dim() const { return node->name; }
Expr Expr::lhs() const { return Expr(node->lhs); }
Expr Expr::rhs() const { return Expr(node->rhs); }

std::optional<int64_t> Expr::asConstant() const {
  return node->kind == Kind::Constant ? std::optional(node->value) : std::nullopt;
}

Expr Expr::make(Kind kind, const Expr &a, const Expr &b) {
  if (auto x = a.asConstant())
    if (auto y = b.asConstant())
      if (auto folded = apply(kind, *x, *y))
        return Expr(*folded);
  return Expr(std::make_shared<Node>(Node{kind, 0, {}, a.node, b.node}));
}

// Sums and products associate to the left, as in the parser, so that printed text reads back as the same tree.

Expr operator+(const Expr &a, const Expr &b) {
  if (a.asConstant() == 0)
    return b;
  if (b.asConstant() == 0)
    return a;
  if (b.node->kind == Expr::Kind::Add)
    return a + Expr(b.node->lhs) + Expr(b.node->rhs);
  return Expr::make(Expr::Kind::Add, a, b);
}

/// Whether a node is a constant, or a product of constants that overflows int64.
static bool isConstantProduct(const Expr::Node &node) {
  return node.kind == Expr::Kind::Constant ||
         (node.kind == Expr::Kind::Mul && isConstantProduct(*node.lhs) && isConstantProduct(*node.rhs));
}

Expr operator*(const Expr &a, const Expr &b) {
  if (a.asConstant() == 1)
    return b;
  if (b.asConstant() == 1)
    return a;
  if (a.asConstant() == 0 || b.asConstant() == 0)
    return Expr(0);
  // Constants move to the front and merge there: 4*(B*12) becomes 48*B.
  if (b.asConstant() && !isConstantProduct(*a.node))
    return b * a;
  if (b.node->kind == Expr::Kind::Mul)
    return a * Expr(b.node->lhs) * Expr(b.node->rhs);
  return Expr::make(Expr::Kind::Mul, a, b);
}

Expr ceilDiv(const Expr &a, const Expr &b) {
  assert(b.asConstant().value_or(0) > 0 && "a formula may fall as its divisor grows");
  return b.asConstant() == 1 ? a : Expr::make(Expr::Kind::CeilDiv, a, b);
}

Expr min(const Expr &a, const Expr &b) { return Expr::make(Expr::Kind::Min, a, b); }
Expr max(const Expr &a, const Expr &b) { return Expr::make(Expr::Kind::Max, a, b); }

Expected<int64_t> Expr::evaluate(const DimBinding &dims) const {
  if (node->kind == Kind::Constant)
    return node->value;
  if (node->kind == Kind::Name) {
    auto it = dims.find(node->name);
    if (it == dims.end())
      return makeError("no value for dim '" + node->name + "'");
    return it->second;
  }
  Expected<int64_t> a = Expr(node->lhs).evaluate(dims);
  if (!a)
    return a;
  Expected<int64_t> b = Expr(node->rhs).evaluate(dims);
  if (!b)
    return b;
  if (auto result = apply(node->kind, *a, *b))
    return *result;
  return makeError("'" + str() + "' is past 64 bits");
}

static std::string print(const Expr::Node &node, bool inProduct) {
  using Kind = Expr::Kind;
  auto call = [&](StringRef function) {
    return (function + "(" + print(*node.lhs, false) + "," + print(*node.rhs, false) + ")").str();
  };
  switch (node.kind) {
  case Kind::Constant:
    return std::to_string(node.value);
  case Kind::Name:
    return node.name;
  case Kind::Add: {
    std::string sum = print(*node.lhs, false) + "+" + print(*node.rhs, false);
    return inProduct ? "(" + sum + ")" : sum;
  }
  case Kind::Mul:
    return print(*node.lhs, true) + "*" + print(*node.rhs, true);
  case Kind::CeilDiv:
    return call("ceildiv");
  case Kind::Min:
    return call("min");
  case Kind::Max:
    return call("max");
  }
  llvm_unreachable("unknown kind");
}

std::string Expr::str() const { return print(*node, false); }

namespace {

/// sum := product ('+' product)*; product := atom ('*' atom)*;
/// atom := number | name | '(' sum ')' | ('ceildiv' | 'min' | 'max') '(' sum ',' sum ')'; ceildiv's second is constant
class ExprParser {
public:
  explicit ExprParser(StringRef text) : all(text), rest(text) {}

  Expected<Expr> parseAll() {
    // The tree of a long sum is deep, and functions that walk it recurse.
    if (all.size() > maxLength)
      return makeError("expected a formula of at most " + Twine(maxLength) + " characters, got " + Twine(all.size()));
    Expected<Expr> result = parseSum();
    if (result && !rest.empty())
      return fail("expected '+', '*' or the end");
    return result;
  }

private:
  Error fail(StringRef what) {
    return makeError("in expression '" + all + "', column " + Twine(all.size() - rest.size() + 1) + ": " + what);
  }

  Expected<Expr> parseSum() {
    Expected<Expr> sum = parseProduct();
    while (sum && rest.consume_front("+")) {
      Expected<Expr> term = parseProduct();
      if (!term)
        return term;
      sum = *sum + *term;
    }
    return sum;
  }

  Expected<Expr> parseProduct() {
    Expected<Expr> product = parseAtom();
    while (product && rest.consume_front("*")) {
      Expected<Expr> factor = parseAtom();
      if (!factor)
        return factor;
      product = *product * *factor;
    }
    return product;
  }

  Expected<Expr> parseAtom() {
    if (++depth > 64)
      return fail("nested too deeply");
    auto leave = llvm::make_scope_exit([&] { --depth; });
    if (!rest.empty() && llvm::isDigit(rest.front())) {
      int64_t value = 0;
      if (rest.consumeInteger(10, value))
        return fail("a number past 64 bits");
      return Expr(value);
    }
    if (rest.consume_front("(")) {
      Expected<Expr> inner = parseSum();
      if (inner && !rest.consume_front(")"))
        return fail("expected ')'");
      return inner;
    }
    StringRef word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (word.empty())
      return fail("expected a number, a dim or '('");
    rest = rest.drop_front(word.size());
    if (!rest.starts_with("("))
      return Expr::name(word);
    return parseCall(word);
  }

  Expected<Expr> parseCall(StringRef function) {
    if (function != "ceildiv" && function != "min" && function != "max")
      return fail("expected ceildiv, min or max before '('");
    rest = rest.drop_front();
    Expected<Expr> a = parseSum();
    if (!a)
      return a;
    if (!rest.consume_front(","))
      return fail("expected ','");
    const size_t before = rest.size();
    Expected<Expr> b = parseSum();
    if (!b)
      return b;
    if (function == "ceildiv" && b->asConstant().value_or(0) < 1) {
      rest = all.take_back(before);
      return fail("expected a positive number to divide by");
    }
    if (!rest.consume_front(")"))
      return fail("expected ')'");
    return function == "ceildiv" ? ceilDiv(*a, *b) : function == "min" ? min(*a, *b) : max(*a, *b);
  }

  static constexpr size_t maxLength = 1 << 14;

  StringRef all, rest;
  int depth = 0;
};

} // namespace

Expected<Expr> Expr::parse(StringRef text) { return ExprParser(text).parseAll(); }

} // namespace kiln
