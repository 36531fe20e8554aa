// Errors that only a pass can make, since such text does not parse. tests/ir has the verifier's other messages.
#include "IrSupport.h"

#include "ir/Builder.h"

namespace kiln {
namespace {

class VerifierTest : public IrTest {
protected:
  /// A plain op, a fused region, and a return.
  Module &example() {
    return parse(R"(module @m {
  dim B : 1..64
  weight %w : f32[4] = "w"
  func @f(%x: f32[B,4]) -> f32[B,4] {
    %a = add %x, %w : f32[B,4]
    %b = fused @relu(%a) {
      %c = relu %a : f32[B,4]
      yield %c
    } : f32[B,4]
    return %b
  }
}
)");
  }

  static Op &find(Module &module, StringRef name) { return op(module, "f", name); }
  std::string verdict() { return messageOf(verify(*module)); }
};

TEST_F(VerifierTest, AcceptsTheExample) { EXPECT_EQ(messageOf(verify(example())), ""); }

TEST_F(VerifierTest, WantsBoundsOfDims) {
  example().dims[0]->min = 0;
  EXPECT_EQ(verdict(), "test.kiln:2:7: error: dim B: expected bounds 1 <= low <= high, got 0..64\n");
  module->dims[0]->min = 65;
  EXPECT_EQ(verdict(), "test.kiln:2:7: error: dim B: expected bounds 1 <= low <= high, got 65..64\n");
}

TEST_F(VerifierTest, WantsEveryNameOnce) {
  example().addDim("B", 1, 2, module->dims[0]->loc);
  EXPECT_EQ(verdict(), "test.kiln:2:7: error: B is defined twice\ntest.kiln:2:7: note: first defined here\n");
  find(example(), "b").result()->name = "x";
  EXPECT_EQ(verdict(), "test.kiln:6:5: error: %x is defined twice\ntest.kiln:4:11: note: first defined here\n");
}

TEST_F(VerifierTest, WantsRecipesThatGiveTheWeight) {
  constexpr StringRef message = "test.kiln:3:10: error: weight %w: its recipe does not give ";
  example().weights[0]->recipe->sourceShape = {8};
  EXPECT_EQ(verdict(), (message + "f32[4]\n").str());
  example().weights[0]->recipe->dtype = DType::BF16;
  EXPECT_EQ(verdict(), (message + "f32[4]\n").str());
  example().weights[0]->type = Type(DType::F32, {1});
  EXPECT_EQ(verdict(), (message + "f32[1]\n").str());
}

TEST_F(VerifierTest, WantsAReturnAtTheEnd) {
  Block &body = example().functions[0]->body;
  body.terminator()->erase();
  EXPECT_EQ(verdict(), "test.kiln:4:8: error: @f: expected a return at the end\n");
  example().functions[0]->body.terminator()->moveBefore(&find(*module, "b"));
  EXPECT_EQ(verdict(), "test.kiln:4:8: error: @f: expected a return at the end\n");
}

TEST_F(VerifierTest, WantsTerminatorsAtTheEndsOnly) {
  Op &fused = find(example(), "b");
  Op *yield = fused.region()->terminator();
  yield->moveBefore(&find(*module, "c"));
  EXPECT_EQ(verdict(), "test.kiln:8:7: error: yield: expected only at the end of a block\n");
  find(example(), "b").region()->terminator()->erase();
  EXPECT_EQ(verdict(), "test.kiln:7:12: error: relu: expected a terminator at the end of a block\n");
}

TEST_F(VerifierTest, WantsEachTerminatorInItsPlace) {
  Block &region = *find(example(), "b").region();
  Op *yield = region.terminator();
  Value *yielded = yield->operand(0);
  yield->erase();
  Builder(opTable(), region).createTerminator(OpKind::ret, {yielded});
  EXPECT_EQ(verdict(), "error: return: expected yield at the end of a fused region\n");

  Block &body = example().functions[0]->body;
  Value *returned = body.terminator()->operand(0);
  body.terminator()->erase();
  Builder(opTable(), body).createTerminator(OpKind::yield, {returned});
  EXPECT_EQ(verdict(), "test.kiln:4:8: error: @f: expected a return at the end\n");
}

TEST_F(VerifierTest, WantsDefinitionsBeforeUses) {
  find(example(), "b").moveBefore(&find(*module, "a"));
  EXPECT_EQ(verdict(), "test.kiln:7:12: error: relu: %a is used before its definition or outside its scope\n");
  example().functions[0]->body.terminator()->setOperand(0, find(*module, "c").result());
  EXPECT_EQ(verdict(), "test.kiln:10:5: error: return: %c is used before its definition or outside its scope\n");
}

TEST_F(VerifierTest, WantsTheValueItselfNotItsNamesake) {
  Module &module = parse(R"(module @m {
  func @f(%x: f32[4]) -> f32[4] {
    return %x
  }
  func @g(%x: f32[4]) -> f32[4] {
    return %x
  }
}
)");
  module.functions[1]->body.terminator()->setOperand(0, module.functions[0]->arguments[0].get());
  EXPECT_EQ(verdict(), "test.kiln:6:5: error: return: %x is used before its definition or outside its scope\n");
}

TEST_F(VerifierTest, WantsTheInferredResult) {
  find(example(), "c").result()->type = Type(DType::BF16, {4});
  EXPECT_EQ(verdict(), "test.kiln:7:12: error: relu: expected result type f32[B,4], got bf16[4]\n");
  find(example(), "c").addResult("d", Type(DType::F32, {4}));
  EXPECT_EQ(verdict(), "test.kiln:7:12: error: relu: expected one result, got 2\n");
}

TEST_F(VerifierTest, WantsRegionsOneLevelDeep) {
  Op &fused = find(example(), "b");
  Op &inner = find(*module, "c");
  Op *nested = fused.region()->insert(
      std::make_unique<Op>(opTable()[OpKind::fused], ArrayRef<Value *>(), AttributeMap(), inner.loc), &inner);
  nested->symbol = "nested";
  EXPECT_EQ(verdict(), "test.kiln:7:12: error: fused @nested: expected no fused region inside a fused region\n");
}

TEST_F(VerifierTest, WantsANameAndARegion) {
  find(example(), "b").symbol.clear();
  EXPECT_EQ(verdict(), "test.kiln:6:10: error: fused: expected a name and a region\n");
  find(example(), "b").createRegion(); // an empty region instead of the old one
  EXPECT_EQ(verdict(), "test.kiln:6:10: error: fused @relu: expected a name and a region\n");
}

TEST_F(VerifierTest, WantsResultsOfRegions) {
  Op &fused = find(example(), "b");
  fused.result()->type = Type(DType::F32, {4});
  EXPECT_EQ(verdict(), "test.kiln:6:10: error: fused @relu: expected result type f32[B,4], got f32[4]\n");
  fused.region()->terminator()->setOperand(0, fused.region()->ops().front()->operand(0));
  EXPECT_EQ(verdict(), "test.kiln:8:7: error: yield: expected results of the region, got %a\n");
}

TEST_F(VerifierTest, ReportsTheFirstViolationOfEachFunction) {
  parse(R"(module @m {
  func @f(%x: f32[4]) -> f32[4] {
    return %x
  }
  func @g(%x: f32[4]) -> f32[4] {
    return %x
  }
}
)");
  for (auto &function : module->functions)
    function->body.terminator()->erase();
  EXPECT_EQ(verdict(), "test.kiln:2:8: error: @f: expected a return at the end\n"
                       "test.kiln:5:8: error: @g: expected a return at the end\n");
}

/// Attributes that a pass or the driver writes are checked like those of a text.
TEST_F(VerifierTest, KnowsTheAttributesOfModulesAndFunctions) {
  example().attributes.insert({"serial", 1});
  EXPECT_EQ(verdict(), "test.kiln:1:1: error: module @m: attribute 'serial': expected true or false, got 1\n");
  module->attributes = {{"serious", true}};
  EXPECT_EQ(verdict(), "test.kiln:1:1: error: module @m: unknown attribute 'serious'\n");
  module->attributes = {{"restrict", true}, {"serial", true}};
  module->functions[0]->attributes = {{"live", 0}};
  EXPECT_EQ(verdict(), "test.kiln:4:8: error: @f: attribute 'live': expected a string, got 0\n");
}

} // namespace
} // namespace kiln
