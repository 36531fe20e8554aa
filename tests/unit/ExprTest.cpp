#include "TestSupport.h"

#include "support/model/ExprProof.h"

#include <random>

namespace kiln {
namespace {

Expr formula(StringRef text) { return unwrap(Expr::parse(text)); }

TEST(Expr, DividesByPositiveNumbersOnly) {
  EXPECT_EQ(formula("ceildiv(B*T,2*32)").str(), "ceildiv(B*T,64)");
  for (StringRef divisor : {"0", "B", "0*B", "min(B,1)"})
    EXPECT_EQ(messageOf(Expr::parse(("ceildiv(64," + divisor + ")").str())),
              "error: in expression 'ceildiv(64," + divisor.str() +
                  ")', column 12: expected a positive number to divide by\n");
}

TEST(Expr, KnowsDivisors) {
  for (auto [text, divisor] : {std::pair("0", 16),
                               {"48", 16},
                               {"24", 8},
                               {"B", 1},
                               {"64*B+16", 16},
                               {"64*B+8*T", 8},
                               {"4*B*(4*T+8)", 16},
                               {"16*ceildiv(B,16)", 16},
                               {"ceildiv(128*B,8)", 16},
                               {"ceildiv(128*B,3)", 1},
                               {"min(32*B,48)", 16},
                               {"max(32*B,40)", 8},
                               {"64*B+8*max(min(T,4),2)", 8}})
    EXPECT_EQ(knownDivisor(formula(text), 16), divisor) << text;
}

const DimBounds someBounds = {{{"B", 1}, {"T", 1}}, {{"B", 64}, {"T", 1024}}};

TEST(Expr, ProvesAnOrderForAllDims) {
  for (auto [less, more] : {std::pair("B", "B*T"),
                            {"B*T", "B*T"},
                            {"116*B", "128*B"},
                            {"128*B", "64*B+64*B*T"},
                            {"128*B+384*B*T+64", "128*B+384*B*T+128"},
                            {"48*B*T+64*B", "64*B+64*B*T"},
                            {"B*T", "64*T"},
                            {"B*T", "1024*B"},
                            {"B*T+B", "2*B*T"},
                            {"B*T*T", "64*T*T"},
                            {"T", "T*T"},
                            {"256*B*ceildiv(T,64)", "4096*B"},
                            {"ceildiv(B*T,64)", "B*T"},
                            {"12*ceildiv(T,16)*ceildiv(T,16)*B", "48*B*T*T"},
                            {"min(T,128)", "128"},
                            {"16*max(B,4)", "16*max(B,4)+16"}})
    EXPECT_TRUE(isNeverMore(formula(less), formula(more), someBounds)) << less << " <= " << more;
}

TEST(Expr, ProvesNothingThatIsWrongSomewhere) {
  for (auto [less, more] : {std::pair("128*B", "64*B+32*B*T"), // at T = 1
                            {"B*T", "1023*B"},                 // at T = 1024
                            {"B*T", "8*B+8*T"},                // between the corners, too
                            {"T*T", "1023*T"},
                            {"T+2", "T*T+T"},
                            {"64", "64*ceildiv(T,64)*min(B,2)+B+T+0*X+min(X,1)"},
                            {"max(B,T)", "T"},
                            {"B", "X"}})
    EXPECT_FALSE(isNeverMore(formula(less), formula(more), someBounds)) << less << " <= " << more;
}

/// Generates formulas of B and T with a few operations.
class RandomFormulas {
public:
  explicit RandomFormulas(unsigned seed) : generator(seed) {}

  int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator); }

  Expr make(int depth) {
    int64_t kind = number(0, depth == 0 ? 2 : 9);
    if (kind <= 2)
      return kind == 0 ? Expr(number(0, 8)) : Expr::name(kind == 1 ? "B" : "T");
    Expr a = make(depth - 1);
    if (kind == 3)
      return ceilDiv(a, Expr(number(1, 6)));
    Expr b = make(depth - 1);
    return kind == 4 ? min(a, b) : kind == 5 ? max(a, b) : kind <= 7 ? a + b : a * b;
  }

private:
  std::mt19937 generator;
};

TEST(Expr, WhatIsProvedHoldsForAllDims) {
  RandomFormulas random(1);
  int proved = 0;
  for (int round = 0; round < 20000; ++round) {
    Expr a = random.make(3), b = round % 2 ? random.make(3) : a + random.make(2);
    DimBounds bounds;
    for (StringRef dim : {"B", "T"}) {
      bounds.low[dim.str()] = random.number(1, 3);
      bounds.high[dim.str()] = bounds.low[dim.str()] + random.number(0, 5);
    }
    bool isLess = isNeverMore(a, b, bounds);
    int64_t divisor = knownDivisor(a, 16);
    proved += isLess;
    for (int64_t batch = bounds.low["B"]; batch <= bounds.high["B"]; ++batch)
      for (int64_t tokens = bounds.low["T"]; tokens <= bounds.high["T"]; ++tokens) {
        DimBinding dims = {{"B", batch}, {"T", tokens}};
        int64_t value = unwrap(a.evaluate(dims));
        EXPECT_EQ(value % divisor, 0) << a.str();
        EXPECT_TRUE(!isLess || value <= unwrap(b.evaluate(dims))) << a.str() << " <= " << b.str();
      }
  }
  EXPECT_GT(proved, 5000);
}

} // namespace
} // namespace kiln
