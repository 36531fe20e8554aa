// The check of numerics finds mistakes that a split of tensors could make.
#include "IrSupport.h"

#include "driver/Compile.h"
#include "passes/Rewrite.h"
#include "reference/NumericCheck.h"

namespace kiln {
namespace {

class ShardTensorsTest : public IrTest {
protected:
  /// A model for two ranks, and its numbers before it was split.
  void SetUp() override {
    std::string model = directory.write("tiny.toml", R"(vocab_size = 37
n_positions = 16
n_embd = 16
n_layer = 1
n_head = 2
n_inner = 24
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
)");
    module = unwrap(compileToStage(model, Stage::Graph, {}, sources));
    expectSuccess(check.before(*module));
    expectSuccess(runPasses(*module, unwrap(parsePasses("shard-tensors{ranks = 2}"))));
    expectSuccess(check.after(*module));
  }

  /// The module must be well-formed, and the check of numerics must fail with this message.
  void expectFound(StringRef message) {
    expectSuccess(verify(*module));
    std::string found = messageOf(check.after(*module));
    EXPECT_TRUE(StringRef(found).contains(message)) << found;
  }

  Op &inPrefill(StringRef name) { return op(*module, "prefill", name); }

  /// Swaps an exchange and the op behind it: `add(all_reduce(x), b)` becomes `all_reduce(add(x, b))`.
  static void swapWithNext(Op &exchange, Op &next) {
    next.result()->replaceAllUsesWith(exchange.result());
    next.setOperand(0, exchange.operand(0));
    exchange.setOperand(0, next.result());
    next.moveBefore(&exchange);
  }

  TemporaryDirectory directory;
  NumericCheck check{1};
};

TEST_F(ShardTensorsTest, FindsABiasThatIsAddedOnEveryRank) {
  swapWithNext(inPrefill("proj_mm.0"), inPrefill("proj.0"));
  expectFound("@prefill, result 0: element 0 was");
}

TEST_F(ShardTensorsTest, FindsAResidualThatIsAddedOnEveryRank) {
  swapWithNext(inPrefill("fcproj_mm.0"), inPrefill("fcproj.0"));
  swapWithNext(inPrefill("fcproj_mm.0"), inPrefill("x.1"));
  expectFound("@prefill, result 0: element 0 was");
}

/// Query, key and value lie side by side: a share of all columns is not a share of each.
TEST_F(ShardTensorsTest, FindsColumnsOfAnotherShare) {
  for (StringRef name : {"qkv_w.0", "qkv_b.0"}) {
    RankSplit &split = *module->findWeight(name)->recipe->split;
    split.parts = 1;
    expectFound("@prefill, result 0: element 0 was");
    split.parts = 3;
  }
  expectSuccess(check.after(*module));
}

TEST_F(ShardTensorsTest, FindsRowsOfAnotherShare) {
  // 24 rows: shares of 16 and 8 in units of 8, of 12 and 12 in units of 4. With room for 16 each, only the rows differ.
  WeightRecipe &recipe = *module->findWeight("fcproj_w.0")->recipe;
  recipe.split->unit = 4;
  recipe.pad = true;
  expectFound("@prefill, result 0: element 0 was");
}

TEST_F(ShardTensorsTest, FindsASumThatIsMissing) {
  for (StringRef name : {"proj_mm.0", "fcproj_mm.0"}) {
    Op &sum = inPrefill(name);
    SmallVector<Op *, 2> users(sum.result()->getUsers());
    sum.result()->replaceAllUsesWith(sum.operand(0));
    expectFound("@prefill, result 0: element 0 was");
    for (Op *user : users)
      for (unsigned i = 0; i < user->operands().size(); ++i)
        if (user->operand(i) == sum.operand(0))
          user->setOperand(i, sum.result());
  }
  expectSuccess(check.after(*module));
}

TEST_F(ShardTensorsTest, FindsAResultThatIsNotGathered) {
  Op &gathered = inPrefill("logits");
  module->findFunction("prefill")->body.terminator()->setOperand(0, gathered.operand(0));
  expectSuccess(refreshTypes(module->findFunction("prefill")->body));
  gathered.erase();
  expectFound("@prefill, result 0: expected the same bits on all ranks, got others on rank 1 than on rank 0");
}

TEST_F(ShardTensorsTest, FindsASumThatIsTakenTwice) {
  Op &sum = inPrefill("proj_mm.0");
  auto again = std::make_unique<Op>(sum.def(), ArrayRef<Value *>(), AttributeMap(), sum.loc);
  Value *result = again->addResult("again", sum.result()->type);
  sum.result()->replaceAllUsesWith(result);
  again->addOperand(sum.result());
  sum.parent()->insert(std::move(again), sum.next());
  expectFound("@prefill, result 0: element 0 was");
}

} // namespace
} // namespace kiln
