//===- Expr.h - integer expressions over named dims -------------------------===//
//
// Sizes, offsets and launch grids depend on dims that are known only when a plan runs. An Expr is a formula over them.
// The plan contains it as text (`ceildiv(B*T,64)`), and the runtime evaluates it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Values of named dims.
using DimBinding = std::map<std::string, int64_t, std::less<>>;

/// A name in formulas of costs, beside the dims: the number of tokens per sequence in the cache before the call.
inline constexpr char pastTokens[] = "past";

/// An immutable expression: constants, names, +, *, ceildiv by a constant, min, max. Values are non-negative int64, and
/// never fall when a dim grows.
class Expr {
public:
  Expr() : Expr(0) {}
  Expr(int64_t constant);
  static Expr name(StringRef name);

  friend Expr operator+(const Expr &a, const Expr &b);
  friend Expr operator*(const Expr &a, const Expr &b);
  /// a / b rounded up; b is a positive constant.
  friend Expr ceilDiv(const Expr &a, const Expr &b);
  friend Expr min(const Expr &a, const Expr &b);
  friend Expr max(const Expr &a, const Expr &b);

  std::optional<int64_t> asConstant() const;

  /// Error: a name has no value, or a result overflows int64.
  Expected<int64_t> evaluate(const DimBinding &dims) const;

  /// The text, like `4*B*T` or `ceildiv(B*T,64)`: no spaces, products before sums. Parsing it gives the same formula.
  std::string str() const;

  /// Error: text that is not an expression; the message names the column.
  static Expected<Expr> parse(StringRef text);

  bool operator==(const Expr &other) const { return str() == other.str(); }

  enum class Kind { Constant, Name, Add, Mul, CeilDiv, Min, Max };
  struct Node;

  // For code that walks over formulas.
  Kind kind() const;
  /// The name, if the kind is Kind::Name.
  StringRef dim() const;
  /// The operands, if it is neither a constant nor a name.
  Expr lhs() const;
  Expr rhs() const;

private:
  explicit Expr(std::shared_ptr<const Node> node) : node(std::move(node)) {}
  static Expr make(Kind kind, const Expr &a, const Expr &b);

  std::shared_ptr<const Node> node;
};

Expr operator+(const Expr &a, const Expr &b);
Expr operator*(const Expr &a, const Expr &b);
Expr ceilDiv(const Expr &a, const Expr &b);
Expr min(const Expr &a, const Expr &b);
Expr max(const Expr &a, const Expr &b);

} // namespace kiln
