#include "IrSupport.h"

#include "reference/Evaluator.h"
#include "reference/NumericCheck.h"

#include <cmath>

namespace kiln {
namespace {

/// A tensor of these extents with elements that count up from `first`.
Tensor<double> counting(ArrayRef<int64_t> shape, double first = 0) {
  Tensor<double> tensor(shape);
  for (double &value : tensor.elements())
    value = first++;
  return tensor;
}

std::vector<double> elements(const Tensor<double> &tensor) {
  return {tensor.elements().begin(), tensor.elements().end()};
}

class EvaluatorTest : public IrTest {
protected:
  Evaluator<double> evaluator(StringRef text) {
    parse(text);
    return Evaluator<double>(*module, [this](const Value &weight, int64_t) -> Expected<Tensor<double>> {
      loaded.push_back(weight.name);
      if (weight.name == "missing")
        return makeError("no tensor 'missing'");
      return counting(weight.recipe->shape);
    });
  }

  std::vector<std::string> loaded;
};

/// The order of sums in a product depends on where its operands begin in a vector.
TEST_F(EvaluatorTest, TheSameProductsHaveTheSameBits) {
  std::vector<Tensor<double>> held;
  parse(R"(module @m {
  weight %w : f32[13,7] = "w"
  func @f(%x: f32[3,13]) -> f32[3,7] {
    %y = matmul %x, %w : f32[3,7]
    return %y
  }
}
)");
  std::vector<double> wanted;
  for (int64_t odd = 1; odd < 40; odd += 2) {
    // Other tensors in between move those of the product.
    held.push_back(counting({odd}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(held.back().data()) % 64, 0U);
    Tensor<double> x(ArrayRef<int64_t>{3, 13});
    for (int64_t i = 0; i < x.size(); ++i)
      x.data()[i] = std::sqrt(static_cast<double>(i + 2));
    Evaluator<double> evaluator(
        *module, [&](const Value &weight, int64_t) -> Expected<Tensor<double>> { return randomWeight(weight, 1); });
    std::vector<double> got = elements(unwrap(evaluator.run("f", {x}))[0]);
    if (wanted.empty())
      wanted = got;
    EXPECT_EQ(got, wanted);
  }
}

constexpr StringRef doubling = R"(module @m {
  dim B : 1..4
  dim T : 2..8
  func @f(%x: f32[B,T], %y: f32[T]) -> (f32[B,T], f32[T]) {
    %z = scale %x {factor = 2.0} : f32[B,T]
    return %z, %y
  }
}
)";

TEST_F(EvaluatorTest, BindsDimsToTheArgumentsExtents) {
  auto run = evaluator(doubling);
  auto results = unwrap(run.run("f", {counting({1, 3}), counting({3}, 7)}));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].shape(), ArrayRef<int64_t>({1, 3}));
  EXPECT_EQ(elements(results[0]), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(elements(results[1]), (std::vector<double>{7, 8, 9})); // an argument may be a result
}

TEST_F(EvaluatorTest, RefusesArgumentsThatDoNotFit) {
  auto run = evaluator(doubling);
  EXPECT_EQ(messageOf(run.run("g", {})), "error: module @m has no function @g\n");
  EXPECT_EQ(messageOf(run.run("f", {counting({1, 3})})), "error: @f: expected 2 arguments, got 1\n");
  EXPECT_EQ(messageOf(run.run("f", {counting({1, 3}), counting({4})})),
            "error: @f: argument %y: expected f32[T], got extents 4\n");
  EXPECT_EQ(messageOf(run.run("f", {counting({1, 3, 1}), counting({3})})),
            "error: @f: argument %x: expected f32[B,T], got extents 1,3,1\n");
  EXPECT_EQ(messageOf(run.run("f", {counting({5, 3}), counting({3})})),
            "error: @f: argument %x: expected B from 1 to 4, got 5\n");
  EXPECT_EQ(messageOf(run.run("f", {counting({1, 1}), counting({1})})),
            "error: @f: argument %x: expected T from 2 to 8, got 1\n");
}

TEST_F(EvaluatorTest, KeepsWhatSomebodyStillReads) {
  // Results may take the memory of operands that die. These operands do not die: an argument, a weight, a result of the
  // function, a value with a later user in the block or outside the fused region.
  auto run = evaluator(R"(module @m {
  weight %w : f32[3] = "w"
  func @f(%x: f32[3]) -> (f32[3], f32[3], f32[3]) {
    %a = scale %x {factor = 2.0} : f32[3]
    %b = add %a, %a : f32[3]
    %c = fused @scale_bias(%a, %w) {
      %d = scale %a {factor = 10.0} : f32[3]
      %e = scale %w {factor = 100.0} : f32[3]
      %f = add %d, %e : f32[3]
      yield %f
    } : f32[3]
    %g = scale %b {factor = -1.0} : f32[3]
    %h = add %g, %a : f32[3]
    return %h, %b, %c
  }
}
)");
  Tensor<double> x = counting({3}, 1);
  for (int repeat = 0; repeat < 2; ++repeat) {
    auto results = unwrap(run.run("f", {x}));
    EXPECT_EQ(elements(results[0]), (std::vector<double>{-2, -4, -6}));
    EXPECT_EQ(elements(results[1]), (std::vector<double>{4, 8, 12}));
    EXPECT_EQ(elements(results[2]), (std::vector<double>{20, 140, 260}));
    EXPECT_EQ(elements(x), (std::vector<double>{1, 2, 3}));
  }
}

TEST_F(EvaluatorTest, ReusesTheMemoryOfValuesThatDie) {
  auto run = evaluator(R"(module @m {
  func @f(%x: f32[3], %w: f32[3]) -> f32[3] {
    %a = scale %x {factor = 2.0} : f32[3]
    %b = relu %a : f32[3]
    %c = layernorm %b, %w, %w {eps = 1.0e-5} : f32[3]
    return %c
  }
}
)");
  std::vector<const double *> places;
  run.setResultHook([&](const Value &, const Tensor<double> &tensor) {
    places.push_back(tensor.data());
    return Error::success();
  });
  unwrap(run.run("f", {counting({3}), counting({3})}));
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[1], places[0]);
  EXPECT_EQ(places[2], places[0]);
}

TEST_F(EvaluatorTest, LoadsEachWeightOnceWhenItIsFirstUsed) {
  auto run = evaluator(R"(module @m {
  weight %used   : f32[2] = "used"
  weight %unused : f32[2] = "unused"
  weight %missing : f32[2] = "missing"
  func @f(%x: f32[2]) -> f32[2] {
    %a = add %x, %used : f32[2]
    %b = add %a, %used : f32[2]
    return %b
  }
  func @g() -> f32[2] {
    return %missing
  }
}
)");
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(elements(unwrap(run.run("f", {counting({2}, 5)}))[0]), (std::vector<double>{5, 8}));
  EXPECT_EQ(loaded, std::vector<std::string>{"used"});
  EXPECT_EQ(messageOf(run.run("g", {})), "error: no tensor 'missing'\n");
}

constexpr StringRef counter = R"(module @m {
  dim B : 1..4
  state %s : f32[B,1,2,1]
  func @write(%x: f32[B,1,1,1], %p: i32[B]) -> f32[B,1,2,1] {
    %w = fused @cache(%x, %s, %p) {
      %d = scale %x {factor = 2.0}      : f32[B,1,1,1]
      %w = cache_write %s, %d, %p       : f32[B,1,2,1]
      yield %w
    } : f32[B,1,2,1]
    %z = scale %w {factor = 1.0} : f32[B,1,2,1]
    return %z
  }
}
)";

TEST_F(EvaluatorTest, StatesStayFromCallToCall) {
  auto run = evaluator(counter);
  auto write = [&](double value, double position) {
    return elements(unwrap(run.run("write", {counting({1, 1, 1, 1}, value), counting({1}, position)}))[0]);
  };
  EXPECT_EQ(write(5, 1), (std::vector<double>{0, 10})); // zeros at first
  EXPECT_EQ(write(3, 0), (std::vector<double>{6, 10}));
  run.resetStates();
  EXPECT_EQ(write(1, 0), (std::vector<double>{2, 0}));
  run.setState("s", counting({1, 1, 2, 1}, 40));
  EXPECT_EQ(write(1, 0), (std::vector<double>{2, 41}));
  EXPECT_EQ(messageOf(run.run("write", {counting({2, 1, 1, 1}), counting({2})})),
            "error: state %s has other extents than this call's; reset the states first\n");
}

TEST_F(EvaluatorTest, PassesOnWhatAnOpReports) {
  auto run = evaluator(counter);
  EXPECT_EQ(messageOf(run.run("write", {counting({1, 1, 1, 1}), counting({1}, 9)})),
            "test.kiln:7:12: error: cache_write: position out of range: expected 0 to 1, got 9\n");
}

//===----------------------------------------------------------------------===//
// NumericCheck
//===----------------------------------------------------------------------===//

constexpr StringRef layer = R"(module @m {
  dim B : 1..4
  dim T : 1..8
  weight %wte : f32[16,8] = "wte"[11,8] -> pad
  weight %wpe : f32[8,8]  = "wpe"
  weight %w   : f32[8,8]  = "w"
  state %k : f32[B,1,8,8]
  func @f(%tokens: i32[B,T], %lengths: i32[B]) -> (f32[B,1,8], f32[B,1,8,8]) {
    %x = embed %tokens, %wte, %wpe                       : f32[B,T,8]
    %y = matmul %x, %w                                   : f32[B,T,8]
    %h = split_heads %y {heads = 1, part = 0, parts = 1} : f32[B,1,T,8]
    %c = cache_write %k, %h                              : f32[B,1,8,8]
    %l = last_row %y, %lengths                           : f32[B,1,8]
    return %l, %c
  }
}
)";

TEST_F(EvaluatorTest, NumericCheckAcceptsTheSameModule) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(layer)));
  expectSuccess(check.after(*module));
  // Another layout of a weight changes nothing: its elements follow the checkpoint's tensor.
  Value &w = *module->weights[2];
  w.recipe->transpose = true;
  op(*module, "f", "y").setAttribute("transpose_b", true);
  expectSuccess(check.after(*module));
}

TEST_F(EvaluatorTest, NumericCheckSeesAnotherResult) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(layer)));
  op(*module, "f", "y").setAttribute("transpose_b", true);
  std::string message = messageOf(check.after(*module));
  EXPECT_TRUE(StringRef(message).starts_with("error: @f, result 0: element 0 was ")) << message;
}

TEST_F(EvaluatorTest, NumericCheckSeesAnotherState) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(layer)));
  // The function returns the state's old value instead: its text is the same, its effect is not.
  Op &write = op(*module, "f", "c");
  write.result()->replaceAllUsesWith(write.operand(0));
  write.erase();
  std::string message = messageOf(check.after(*module));
  EXPECT_TRUE(StringRef(message).starts_with("error: @f, result 1: element 0 was ")) << message;
}

constexpr StringRef writer = R"(module @m {
  dim B : 1..4
  state %k : f32[B,1,8,8]
  func @f(%x: f32[B,1,1,8], %y: f32[B,1,1,8]) -> f32[B,1,1,8] {
    %c = cache_write %k, %x : f32[B,1,8,8]
    return %x
  }
}
)";

TEST_F(EvaluatorTest, NumericCheckSeesAnotherEffect) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(writer)));
  op(*module, "f", "c").erase();
  std::string message = messageOf(check.after(*module));
  EXPECT_TRUE(StringRef(message).starts_with("error: @f, state %k: element 0 was ")) << message;
  module->eraseUnused();
  EXPECT_EQ(messageOf(check.after(*module)), "error: @f: wrote state %k, which is gone\n");
}

TEST_F(EvaluatorTest, NumericCheckSeesAnotherShape) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(layer)));
  Op *ret = module->functions[0]->body.terminator();
  ret->setOperand(0, op(*module, "f", "y").result());
  EXPECT_EQ(messageOf(check.after(*module)), "error: @f, result 0: was of shape [2,1,8] and is of [2,5,8]\n");
  ret->setOperand(0, op(*module, "f", "l").result());
  ret->addOperand(op(*module, "f", "l").result());
  EXPECT_EQ(messageOf(check.after(*module)), "error: @f: had 2 results and has 3\n");
}

TEST_F(EvaluatorTest, NumericCheckSeesAnotherShapeOfAState) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(writer)));
  module->states[0]->type.shape[2] = 7;
  EXPECT_EQ(messageOf(check.after(*module)), "error: @f, state %k: was of shape [2,1,8,8] and is of [2,1,7,8]\n");
}

TEST_F(EvaluatorTest, NumericCheckSeesAnotherSignature) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(writer)));
  module->functions[0]->arguments.pop_back();
  EXPECT_EQ(messageOf(check.after(*module)), "error: @f: expected 1 arguments, got 2\n");
  module->functions[0]->name = "g";
  EXPECT_EQ(messageOf(check.after(*module)), "error: @f is gone\n");
}

/// States that are not written may be removed.
TEST_F(EvaluatorTest, NumericCheckNeedsNoStateThatNobodyWrote) {
  NumericCheck check(1);
  expectSuccess(check.before(parse(R"(module @m {
  state %k : f32[4]
  func @f(%x: f32[4]) -> f32[4] {
    return %x
  }
}
)")));
  module->eraseUnused();
  expectSuccess(check.after(*module));
}

TEST_F(EvaluatorTest, NumericCheckTakesNotANumberForItself) {
  // Masked scores minus themselves are NaN.
  NumericCheck check(1);
  expectSuccess(check.before(parse(R"(module @m {
  func @f(%x: f32[1,1,1,3]) -> f32[1,1,1,3] {
    %m = causal_mask %x             : f32[1,1,1,3]
    %n = scale %m {factor = -1.0}   : f32[1,1,1,3]
    %z = add %m, %n                 : f32[1,1,1,3]
    return %z
  }
}
)")));
  expectSuccess(check.after(*module));
}

} // namespace
} // namespace kiln
