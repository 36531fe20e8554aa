#include "support/model/ExprProof.h"

#include <numeric>

namespace kiln {

int64_t knownDivisor(const Expr &expr, int64_t modulus) {
  switch (expr.kind()) {
  case Expr::Kind::Constant:
    return std::gcd(*expr.asConstant(), modulus);
  case Expr::Kind::Name:
    return 1;
  case Expr::Kind::Add:
  case Expr::Kind::Min:
  case Expr::Kind::Max:
    return std::gcd(knownDivisor(expr.lhs(), modulus), knownDivisor(expr.rhs(), modulus));
  case Expr::Kind::Mul: {
    // The other factor only has to contain the part of the modulus that this one lacks.
    int64_t own = knownDivisor(expr.lhs(), modulus);
    return own * knownDivisor(expr.rhs(), modulus / own);
  }
  case Expr::Kind::CeilDiv: {
    // If the division is exact, the quotient keeps the rest of the numerator's divisor.
    int64_t by = *expr.rhs().asConstant(), wanted = 0;
    if (__builtin_mul_overflow(by, modulus, &wanted))
      return 1;
    int64_t divisor = knownDivisor(expr.lhs(), wanted);
    return divisor % by == 0 ? divisor / by : 1;
  }
  }
  llvm_unreachable("unknown kind");
}

namespace {

/// A variable and its number among equal variables of the product: the two T of T*T are different factors.
using Factor = std::pair<std::string, unsigned>;
/// The factors of a product, sorted.
using Monomial = std::vector<Factor>;

/// A sum of products. Formulas of plans have few terms; larger polynomials are given up.
class Polynomial {
public:
  static constexpr size_t maxTerms = 64, maxDegree = 8;

  void add(const Monomial &monomial, int64_t coefficient) {
    int64_t &sum = terms[monomial];
    isSound &= !__builtin_add_overflow(sum, coefficient, &sum);
    if (sum == 0)
      terms.erase(monomial);
    isSound &= terms.size() <= maxTerms && monomial.size() <= maxDegree;
  }

  void subtract(const Polynomial &other) {
    isSound &= other.isSound;
    for (const auto &[monomial, coefficient] : other.terms) // coefficients of formulas are not negative
      add(monomial, -coefficient);
  }

  std::map<Monomial, int64_t> terms;
  bool isSound = true; ///< no overflow of int64, and within the limits
};

Polynomial operator+(Polynomial a, const Polynomial &b) {
  a.isSound &= b.isSound;
  for (const auto &[monomial, coefficient] : b.terms)
    a.add(monomial, coefficient);
  return a;
}

Monomial operator*(const Monomial &a, const Monomial &b) {
  Monomial product = a;
  for (const Factor &factor : b) {
    auto isSame = [&](const Factor &other) { return other.first == factor.first; };
    product.push_back({factor.first, static_cast<unsigned>(llvm::count_if(product, isSame))});
  }
  llvm::sort(product);
  return product;
}

Polynomial operator*(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  product.isSound = a.isSound && b.isSound;
  for (const auto &[left, leftCoefficient] : a.terms)
    for (const auto &[right, rightCoefficient] : b.terms) {
      if (!product.isSound)
        return product;
      int64_t coefficient = 0;
      product.isSound &= !__builtin_mul_overflow(leftCoefficient, rightCoefficient, &coefficient);
      product.add(left * right, coefficient);
    }
  return product;
}

/// Proves that differences of formulas are not negative.
///
/// Formulas are multiplied out to polynomials. Variables are the dims, and parts that are not polynomials (ceildiv,
/// min, max). Formulas never fall when a dim grows, so such a part lies between its values at the least and at the
/// greatest dims. The proof lets every variable, and every further power of one, take any value between its bounds,
/// independently of the others. Real dims take only some of these combinations, so what holds for all of them holds for
/// the dims. The difference is linear in each variable, so its minimum is at a corner, where each variable is at one of
/// its bounds.
class Prover {
public:
  explicit Prover(const DimBounds &bounds) : bounds(bounds) {}

  bool isNeverMore(const Expr &a, const Expr &b) {
    // First, x / c rounded up is a variable of its own. Then it is replaced by its upper bound x, which may share
    // factors with b.
    for (bool dropsDivisions : {false, true}) {
      Polynomial difference = multiplyOut(b, false);
      difference.subtract(multiplyOut(a, dropsDivisions));
      if (difference.isSound && isNeverNegative(difference))
        return true;
    }
    return false;
  }

private:
  struct Range {
    int64_t low, high;
  };

  static Polynomial failed() {
    Polynomial none;
    none.isSound = false;
    return none;
  }

  /// Makes a part a variable, named by its text.
  Polynomial part(const Expr &expr) {
    Expected<int64_t> low = expr.evaluate(bounds.low), high = expr.evaluate(bounds.high);
    if (!low || !high) {
      llvm::consumeError(low.takeError());
      llvm::consumeError(high.takeError());
      return failed();
    }
    Polynomial result;
    if (*low == *high) {
      result.add({}, *low);
      return result;
    }
    std::string name = expr.str();
    ranges[name] = {*low, *high};
    result.add({{name, 0}}, 1);
    return result;
  }

  /// With `dropsDivisions`, the result is an upper bound.
  Polynomial multiplyOut(const Expr &expr, bool dropsDivisions) {
    switch (expr.kind()) {
    case Expr::Kind::Constant: {
      Polynomial result;
      result.add({}, *expr.asConstant());
      return result;
    }
    case Expr::Kind::Add:
      return multiplyOut(expr.lhs(), dropsDivisions) + multiplyOut(expr.rhs(), dropsDivisions);
    case Expr::Kind::Mul:
      return multiplyOut(expr.lhs(), dropsDivisions) * multiplyOut(expr.rhs(), dropsDivisions);
    case Expr::Kind::CeilDiv:
      return dropsDivisions ? multiplyOut(expr.lhs(), true) : part(expr);
    case Expr::Kind::Name:
    case Expr::Kind::Min:
    case Expr::Kind::Max:
      return part(expr);
    }
    llvm_unreachable("unknown kind");
  }

  bool isNeverNegative(const Polynomial &difference) {
    if (llvm::all_of(difference.terms, [](const auto &term) { return term.second >= 0; }))
      return true;
    std::set<Factor> factors;
    for (const auto &[monomial, coefficient] : difference.terms)
      factors.insert(monomial.begin(), monomial.end());
    if (factors.size() > maxFactors)
      return false;
    for (unsigned corner = 0; corner < 1U << factors.size(); ++corner) {
      std::map<Factor, int64_t> values;
      for (const auto &[i, factor] : llvm::enumerate(factors)) {
        const Range &range = ranges.find(factor.first)->second;
        values[factor] = (corner >> i & 1) ? range.high : range.low;
      }
      std::optional<int64_t> value = valueAt(difference, values);
      if (!value || *value < 0)
        return false;
    }
    return true;
  }

  static std::optional<int64_t> valueAt(const Polynomial &polynomial, const std::map<Factor, int64_t> &values) {
    int64_t sum = 0;
    for (const auto &[monomial, coefficient] : polynomial.terms) {
      int64_t product = coefficient;
      for (const Factor &factor : monomial)
        if (__builtin_mul_overflow(product, values.find(factor)->second, &product))
          return std::nullopt;
      if (__builtin_add_overflow(sum, product, &sum))
        return std::nullopt;
    }
    return sum;
  }

  static constexpr size_t maxFactors = 8;

  const DimBounds &bounds;
  std::map<std::string, Range> ranges; ///< bounds of each variable
};

} // namespace

bool isNeverMore(const Expr &a, const Expr &b, const DimBounds &bounds) { return Prover(bounds).isNeverMore(a, b); }

} // namespace kiln
