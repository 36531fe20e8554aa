// The results of each op, in float and double, compared with values worked out by hand.
#include "IrSupport.h"

#include "reference/Evaluator.h"

#include <cmath>

namespace kiln {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Real> class OpEvaluation : public IrTest {
protected:
  using Values = std::vector<double>;

  /// Evaluates `op` in a function of these arguments and this result type; extents are constants.
  Expected<Values> tryEvaluate(StringRef arguments, StringRef op, StringRef type, ArrayRef<Values> inputs) {
    parse(("module @m {\n" + globals + "func @f(" + arguments + ") -> " + type + " {\n%y = " + op + " : " + type +
           "\nreturn %y\n}\n}\n")
              .str());
    Evaluator<Real> evaluator(*module, nullptr);
    if (!initialState.empty())
      evaluator.setState("state", tensor(module->states[0]->type, initialState));
    std::vector<Tensor<Real>> tensors;
    const auto &formal = module->functions[0]->arguments;
    EXPECT_EQ(formal.size(), inputs.size());
    for (const auto &[argument, values] : llvm::zip(formal, inputs))
      tensors.push_back(tensor(argument->type, values));
    auto results = evaluator.run("f", tensors);
    if (!results)
      return results.takeError();
    MutableArrayRef<Real> elements = results->front().elements();
    return Values(elements.begin(), elements.end());
  }

  void expectValues(StringRef arguments, StringRef op, StringRef type, ArrayRef<Values> inputs,
                    const Values &expected) {
    Values got = unwrap(tryEvaluate(arguments, op, type, inputs));
    ASSERT_EQ(got.size(), expected.size());
    double tolerance = 8 * static_cast<double>(std::numeric_limits<Real>::epsilon());
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(expected[i]))
        EXPECT_TRUE(std::isnan(got[i])) << "element " << i << ": " << got[i];
      else if (std::isinf(expected[i]))
        EXPECT_EQ(got[i], expected[i]) << "element " << i;
      else
        EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
    }
  }

  std::string failure(StringRef arguments, StringRef op, StringRef type, ArrayRef<Values> inputs) {
    std::string message = messageOf(tryEvaluate(arguments, op, type, inputs));
    return StringRef(message).split("error: ").second.rtrim().str();
  }

  std::string globals; ///< lines of the module before the function
  Values initialState; ///< elements of %state

private:
  static Tensor<Real> tensor(const Type &type, const Values &values) {
    SmallVector<int64_t, 4> shape;
    for (const Dim &dim : type.shape)
      shape.push_back(*dim.asConstant());
    Tensor<Real> filled(shape);
    EXPECT_EQ(filled.size(), static_cast<int64_t>(values.size()));
    for (auto [to, from] : llvm::zip(filled.elements(), values))
      to = static_cast<Real>(from);
    return filled;
  }
};

using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(OpEvaluation, Reals, );

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

TYPED_TEST(OpEvaluation, Matmul) {
  // [1 2 3]   [1  4]   [14 32]
  // [0 1 0] · [2  5] = [ 2  5]
  //           [3  6]
  this->expectValues("%x: f32[2,3], %w: f32[3,2]", "matmul %x, %w", "f32[2,2]",
                     {{1, 2, 3, 0, 1, 0}, {1, 4, 2, 5, 3, 6}}, {14, 32, 2, 5});
  this->expectValues("%x: f32[2,3], %w: f32[2,3]", "matmul %x, %w {transpose_b = true}", "f32[2,2]",
                     {{1, 2, 3, 0, 1, 0}, {1, 2, 3, 4, 5, 6}}, {14, 32, 2, 5});
  // One row, which takes another path, and a single row without leading dims.
  this->expectValues("%x: f32[1,3], %w: f32[3,2]", "matmul %x, %w", "f32[1,2]", {{1, 2, 3}, {1, 4, 2, 5, 3, 6}},
                     {14, 32});
  this->expectValues("%x: f32[3], %w: f32[2,3]", "matmul %x, %w {transpose_b = true}", "f32[2]",
                     {{1, 2, 3}, {1, 2, 3, 4, 5, 6}}, {14, 32});
  // Leading dims are rows.
  this->expectValues("%x: f32[2,1,2], %w: f32[2,1]", "matmul %x, %w {out = bf16}", "bf16[2,1,1]",
                     {{1, 2, 3, 4}, {10, 1}}, {12, 34});
}

TYPED_TEST(OpEvaluation, Qk) {
  // Two heads of one sequence, two queries, three keys, head size 2.
  this->expectValues("%q: f32[1,2,2,2], %k: f32[1,2,3,2]", "qk %q, %k", "f32[1,2,2,3]",
                     {{1, 2, 3, 4, 1, 0, 0, 1}, {1, 0, 0, 1, 1, 1, 5, 6, 7, 8, 9, 10}},
                     {1, 2, 3, 3, 4, 7, 5, 7, 9, 6, 8, 10});
}

TYPED_TEST(OpEvaluation, Pv) {
  // One head, two queries over three values of size 2.
  this->expectValues("%p: f32[1,1,2,3], %v: f32[1,1,3,2]", "pv %p, %v", "f32[1,1,2,2]",
                     {{0.5, 0.25, 0.25, 0, 0, 1}, {4, 8, 8, 0, 0, 4}}, {4, 5, 0, 4});
}

//===----------------------------------------------------------------------===//
// Pointwise ops
//===----------------------------------------------------------------------===//

TYPED_TEST(OpEvaluation, Add) {
  this->expectValues("%a: f32[2,2], %b: f32[2,2]", "add %a, %b", "f32[2,2]", {{1, 2, 3, 4}, {10, 20, 30, -4}},
                     {11, 22, 33, 0});
  this->expectValues("%a: f32[2,2], %b: f32[2]", "add %a, %b", "f32[2,2]", {{1, 2, 3, 4}, {10, -1}}, {11, 1, 13, 3});
  this->expectValues("%a: f32[2], %b: f32[2]", "add %a, %b", "f32[2]", {{1, 2}, {10, -1}}, {11, 1});
}

TYPED_TEST(OpEvaluation, Scale) {
  this->expectValues("%x: f32[3]", "scale %x {factor = -0.125}", "f32[3]", {{8, -1, 0}}, {-1, 0.125, 0});
}

TYPED_TEST(OpEvaluation, Relu) {
  this->expectValues("%x: f32[4]", "relu %x", "f32[4]", {{-1, 0, 2.5, -0.5}}, {0, 0, 2.5, 0});
}

TYPED_TEST(OpEvaluation, Gelu) {
  // x · Φ(x): Φ(1) = 0.8413447460685429, Φ(-2) = 0.022750131948179195.
  this->expectValues("%x: f32[4]", "gelu %x {approx = erf}", "f32[4]", {{0, 1, -2, 40}},
                     {0, 0.8413447460685429, -0.04550026389635839, 40});
  // The tanh formula differs from the fourth digit on.
  this->expectValues("%x: f32[4]", "gelu %x {approx = tanh}", "f32[4]", {{0, 1, -2, 40}},
                     {0, 0.8411919906082768, -0.04540230591222498, 40});
}

TYPED_TEST(OpEvaluation, Cast) {
  // The reference does not round to the narrower type: errors are measured against it.
  this->expectValues("%x: f32[2]", "cast %x {to = bf16}", "bf16[2]", {{1.0009765625, -3}}, {1.0009765625, -3});
}

TYPED_TEST(OpEvaluation, CausalMask) {
  this->expectValues("%s: f32[1,1,2,3]", "causal_mask %s", "f32[1,1,2,3]", {{1, 2, 3, 4, 5, 6}},
                     {1, -infinity, -infinity, 4, 5, -infinity});
  // Two sequences with two heads, one query each, at positions 0 and 2.
  this->expectValues("%s: f32[2,2,1,3], %p: i32[2]", "causal_mask %s, %p", "f32[2,2,1,3]",
                     {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {0, 2}},
                     {1, -infinity, -infinity, 4, -infinity, -infinity, 7, 8, 9, 10, 11, 12});
  // A window of two keys: the query's own and the one before it.
  this->expectValues("%s: f32[1,1,2,4], %p: i32[1]", "causal_mask %s, %p {window = 2}", "f32[1,1,2,4]",
                     {{1, 2, 3, 4, 5, 6, 7, 8}, {1}}, {1, 2, -infinity, -infinity, -infinity, 6, 7, -infinity});
  // A query past the last key sees all keys.
  this->expectValues("%s: f32[1,1,1,2], %p: i32[1]", "causal_mask %s, %p", "f32[1,1,1,2]", {{1, 2}, {7}}, {1, 2});
  EXPECT_EQ(this->failure("%s: f32[1,1,1,2], %p: i32[1]", "causal_mask %s, %p", "f32[1,1,1,2]", {{1, 2}, {-1}}),
            "causal_mask: position out of range: expected 0 or more, got -1");
  this->expectValues("%s: f32[2,1,1,3], %n: i32[2]", "causal_mask %s, %n {offset = -1}", "f32[2,1,1,3]",
                     {{1, 2, 3, 4, 5, 6}, {1, 2}}, {1, -infinity, -infinity, 4, 5, -infinity});
  EXPECT_EQ(
      this->failure("%s: f32[1,1,1,2], %n: i32[1]", "causal_mask %s, %n {offset = -1}", "f32[1,1,1,2]", {{1, 2}, {0}}),
      "causal_mask: position out of range: expected 0 or more, got -1");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

TYPED_TEST(OpEvaluation, Layernorm) {
  // Mean 3, variance 4, eps 12: the deviations are divided by 4. The second row is constant.
  this->expectValues("%x: f32[2,2], %w: f32[2], %b: f32[2]", "layernorm %x, %w, %b {eps = 12.0}", "f32[2,2]",
                     {{1, 5, 7, 7}, {2, 10}, {100, -1}}, {99, 4, 100, -1});
  this->expectValues("%x: f32[2,2]", "layernorm %x {eps = 12.0}", "f32[2,2]", {{1, 5, 7, 7}}, {-0.5, 0.5, 0, 0});
}

TYPED_TEST(OpEvaluation, LayernormOfLargeMean) {
  // The variance is computed from deviations; a difference of squares would cancel here.
  this->expectValues("%x: f32[4], %w: f32[4], %b: f32[4]", "layernorm %x, %w, %b {eps = 1e-18}", "f32[4]",
                     {{1048577, 1048575, 1048577, 1048575}, {1, 1, 1, 1}, {0, 0, 0, 0}}, {1, -1, 1, -1});
}

TYPED_TEST(OpEvaluation, RowStatistics) {
  // Mean 3, variance 4, eps 12: rstd is a quarter. The second row is constant.
  this->expectValues("%x: f32[2,2]", "row_mean %x", "f32[2]", {{1, 5, 7, 7}}, {3, 7});
  this->expectValues("%x: f32[2,2], %m: f32[2]", "row_rstd %x, %m {eps = 12.0}", "f32[2]", {{1, 5, 5, 9}, {3, 7}},
                     {0.25, 0.25});
  this->expectValues("%x: f32[2,2], %m: f32[2], %r: f32[2], %w: f32[2], %b: f32[2]", "normalize %x, %m, %r, %w, %b",
                     "f32[2,2]", {{1, 5, 7, 7}, {3, 7}, {0.25, 3}, {2, 10}, {100, -1}}, {99, 4, 100, -1});
  this->expectValues("%x: f32[2,2], %m: f32[2], %r: f32[2]", "normalize %x, %m, %r", "f32[2,2]",
                     {{1, 5, 7, 7}, {3, 7}, {0.25, 3}}, {-0.5, 0.5, 0, 0});
}

TYPED_TEST(OpEvaluation, StatisticsOfGroups) {
  this->expectValues("%x: f32[2,4]", "group_mean %x {size = 2}", "f32[2,2]", {{1, 3, 4, 8, 0, 0, -1, 1}}, {2, 6, 0, 0});
  this->expectValues("%x: f32[2,4], %m: f32[2,2]", "group_squares %x, %m", "f32[2,2]",
                     {{1, 3, 4, 8, 0, 0, -1, 1}, {2, 6, 0, 0}}, {2, 8, 0, 2});
  // The first row has the variance (2 + 8 + 2 · (2 · 2²)) / 4 = 6.5.
  this->expectValues("%s: f32[2,2], %m: f32[2,2], %c: f32[2]", "merged_rstd %s, %m, %c {eps = 9.5, size = 2}", "f32[2]",
                     {{2, 8, 0, 26}, {2, 6, 0, 0}, {4, 0}}, {0.25, 0.25});
}

TYPED_TEST(OpEvaluation, NormalizeProduct) {
  this->expectValues("%p: f32[2,3], %m: f32[2], %r: f32[2], %s: f32[3]", "normalize_product %p, %m, %r, %s", "f32[2,3]",
                     {{1, 2, 3, 4, 5, 6}, {2, -1}, {0.5, 2}, {1, 0, -3}}, {-0.5, 1, 4.5, 10, 10, 6});
}

TYPED_TEST(OpEvaluation, Softmax) {
  double log3 = std::log(3.0);
  this->expectValues("%x: f32[2,2]", "softmax %x", "f32[2,2]", {{0, log3, 5, 5}}, {0.25, 0.75, 0.5, 0.5});
  // Masked scores, and scores whose exponentials overflow a float.
  this->expectValues("%x: f32[2,3]", "softmax %x", "f32[2,3]", {{0, log3, -infinity, 1000, -1000, 1000}},
                     {0.25, 0.75, 0, 0.5, 0, 0.5});
  // +inf does not mean masked.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  this->expectValues("%x: f32[2,2]", "softmax %x", "f32[2,2]", {{0, infinity, 0, log3}}, {nan, nan, 0.25, 0.75});
}

TYPED_TEST(OpEvaluation, LogProbability) {
  const double log4 = std::log(4.0), log3 = std::log(3.0);
  std::vector<double> logits = {0, log3, 7, 7, 1000, -1000};
  this->expectValues("%x: f32[3,2], %i: i32[3]", "log_probability %x, %i", "f32[3]", {logits, {1, 0, 1}},
                     {log3 - log4, -std::log(2.0), -2000});
  // An id outside the vocabulary is none.
  this->expectValues("%x: f32[3,2], %i: i32[3]", "log_probability %x, %i", "f32[3]", {logits, {-1, 2, 0}}, {0, 0, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  this->expectValues("%x: f32[2,2], %i: i32[2]", "log_probability %x, %i", "f32[2]", {{0, infinity, nan, 1}, {0, 1}},
                     {nan, nan});
}

TYPED_TEST(OpEvaluation, Argmax) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  this->expectValues("%x: f32[4,3]", "argmax %x", "i32[4]",
                     {{1, 5, 5, -2, -1, -3, nan, 1, 0, -infinity, -infinity, -infinity}}, {1, 1, 1, 0});
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

TYPED_TEST(OpEvaluation, SplitHeads) {
  // Two tokens of two parts of two heads of size 1: q0 q1 k0 k1.
  std::vector<std::vector<double>> x = {{1, 2, 3, 4, 5, 6, 7, 8}};
  this->expectValues("%x: f32[1,2,4]", "split_heads %x {heads = 2, part = 0, parts = 2}", "f32[1,2,2,1]", x,
                     {1, 5, 2, 6});
  this->expectValues("%x: f32[1,2,4]", "split_heads %x {heads = 2, part = 1, parts = 2}", "f32[1,2,2,1]", x,
                     {3, 7, 4, 8});
  // Two sequences of one token, one part, one head of size 4.
  this->expectValues("%x: f32[2,1,4]", "split_heads %x {heads = 1, part = 0, parts = 1}", "f32[2,1,1,4]", x,
                     {1, 2, 3, 4, 5, 6, 7, 8});
}

TYPED_TEST(OpEvaluation, MergeHeads) {
  // Two heads of two tokens of size 2.
  this->expectValues("%x: f32[1,2,2,2]", "merge_heads %x", "f32[1,2,4]", {{1, 2, 5, 6, 3, 4, 7, 8}},
                     {1, 2, 3, 4, 5, 6, 7, 8});
}

TYPED_TEST(OpEvaluation, LastRow) {
  std::vector<double> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  auto evaluate = [&](double first, double second, std::vector<double> expected) {
    this->expectValues("%x: f32[2,3,2], %n: i32[2]", "last_row %x, %n", "f32[2,1,2]", {x, {first, second}}, expected);
  };
  evaluate(1, 3, {1, 2, 11, 12});
  evaluate(3, 2, {5, 6, 9, 10});
  for (double length : {0.0, 4.0})
    EXPECT_EQ(this->failure("%x: f32[2,3,2], %n: i32[2]", "last_row %x, %n", "f32[2,1,2]", {x, {1, length}}),
              "last_row: length out of range: expected 1 to 3, got " + std::to_string(static_cast<int>(length)));
  // Two heads of three tokens.
  this->expectValues("%x: f32[1,2,3,2], %n: i32[1]", "last_row %x, %n", "f32[1,2,1,2]", {x, {2}}, {3, 4, 9, 10});
}

TYPED_TEST(OpEvaluation, Slice) {
  this->expectValues("%x: f32[2,3]", "slice %x {size = 2}", "f32[2,2]", {{1, 2, 3, 4, 5, 6}}, {1, 2, 4, 5});
}

TYPED_TEST(OpEvaluation, CacheWrite) {
  this->globals = "state %state : f32[2,1,3,2]\n";
  this->initialState = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  // Rows that are not written keep their values.
  this->expectValues("%x: f32[2,1,1,2], %p: i32[2]", "cache_write %state, %x, %p", "f32[2,1,3,2]",
                     {{-1, -2, -3, -4}, {2, 0}}, {1, 2, 3, 4, -1, -2, -3, -4, 9, 10, 11, 12});
  this->expectValues("%x: f32[2,1,2,2]", "cache_write %state, %x", "f32[2,1,3,2]", {{-1, -2, -3, -4, -5, -6, -7, -8}},
                     {-1, -2, -3, -4, 5, 6, -5, -6, -7, -8, 11, 12});
  EXPECT_EQ(this->failure("%x: f32[2,1,2,2], %p: i32[2]", "cache_write %state, %x, %p", "f32[2,1,3,2]",
                          {{1, 2, 3, 4, 5, 6, 7, 8}, {0, 2}}),
            "cache_write: position out of range: expected 0 to 2, got 3");
  EXPECT_EQ(this->failure("%x: f32[2,1,1,2], %p: i32[2]", "cache_write %state, %x, %p", "f32[2,1,3,2]",
                          {{1, 2, 3, 4}, {0, -1}}),
            "cache_write: position out of range: expected 0 to 2, got -1");
}

TYPED_TEST(OpEvaluation, Embed) {
  std::vector<double> wte = {1, 2, 3, 4, 5, 6}, wpe = {10, 20, 30, 40, 50, 60};
  this->expectValues("%t: i32[1,2], %wte: f32[3,2], %wpe: f32[3,2]", "embed %t, %wte, %wpe", "f32[1,2,2]",
                     {{2, 0}, wte, wpe}, {15, 26, 31, 42});
  this->expectValues("%t: i32[2,1], %wte: f32[3,2], %wpe: f32[3,2], %p: i32[2]", "embed %t, %wte, %wpe, %p",
                     "f32[2,1,2]", {{1, 1}, wte, wpe, {2, 0}}, {53, 64, 13, 24});
  auto failing = [&](double token, double position) {
    return this->failure("%t: i32[1,1], %wte: f32[3,2], %wpe: f32[3,2], %p: i32[1]", "embed %t, %wte, %wpe, %p",
                         "f32[1,1,2]", {{token}, wte, wpe, {position}});
  };
  EXPECT_EQ(failing(3, 0), "embed: token id out of range: expected 0 to 2, got 3");
  EXPECT_EQ(failing(-1, 0), "embed: token id out of range: expected 0 to 2, got -1");
  EXPECT_EQ(failing(0, 3), "embed: position out of range: expected 0 to 2, got 3");
  EXPECT_EQ(failing(0, -1), "embed: position out of range: expected 0 to 2, got -1");
}

//===----------------------------------------------------------------------===//
// Every op
//===----------------------------------------------------------------------===//

TEST(OpTable, RecordsAreComplete) {
  for (const OpDef *def : opTable().all()) {
    EXPECT_EQ(&opTable()[def->kind], def);
    EXPECT_EQ(opTable().find(def->mnemonic), def);
    EXPECT_FALSE(def->summary.empty()) << def->mnemonic.str();
    bool computes = def->kind != OpKind::fused && !def->has(Trait::Terminator);
    EXPECT_EQ(def->infer != nullptr, computes) << def->mnemonic.str();
    EXPECT_EQ(def->evaluateF32 != nullptr, computes) << def->mnemonic.str();
    EXPECT_EQ(def->evaluateF64 != nullptr, computes) << def->mnemonic.str();
    EXPECT_EQ(def->flops != nullptr, computes) << def->mnemonic.str();
    EXPECT_EQ(def->mapCoordinates != nullptr, def->has(Trait::Layout)) << def->mnemonic.str();
    EXPECT_TRUE(llvm::is_sorted(def->operands, [](const OperandSpec &a, const OperandSpec &b) {
      return a.isOptional < b.isOptional;
    })) << def->mnemonic.str();
  }
}

} // namespace
} // namespace kiln
