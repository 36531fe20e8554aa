#include "IrSupport.h"

#include "ir/Builder.h"

namespace kiln {
namespace {

/// A chain of relus that grows at any place.
class BlockTest : public IrTest {
protected:
  BlockTest()
      : block(parse("module @m {\n"
                    "  weight %w : f32[4] = \"w\"\n"
                    "  func @f(%x: f32[4]) -> f32[4] {\n"
                    "    %first = relu %x : f32[4]\n"
                    "    %last = relu %first : f32[4]\n"
                    "    return %last\n"
                    "  }\n"
                    "}\n")
                  .functions.front()
                  ->body) {}

  Op &find(StringRef name) { return op(*module, "f", name); }

  Op *insertBefore(Op &before, StringRef name) {
    Builder builder(opTable(), &before);
    return builder.create(OpKind::relu, name, {module->functions.front()->arguments.front().get()})->definingOp();
  }

  /// Every op is before all later ones, and not before itself.
  void expectOrder() {
    std::vector<Op *> ops = block.snapshot();
    DenseMap<const Op *, size_t> numbers = positions(block);
    for (size_t i = 0; i < ops.size(); ++i) {
      EXPECT_EQ(numbers.lookup(ops[i]), i);
      EXPECT_EQ(ops[i]->next(), i + 1 < ops.size() ? ops[i + 1] : nullptr);
      for (size_t j = 0; j < ops.size(); ++j)
        EXPECT_EQ(ops[i]->isBefore(ops[j]), i < j) << i << ' ' << j;
    }
  }

  Block &block;
};

TEST_F(BlockTest, KnowsTheOrderAfterManyInsertionsAtOnePlace) {
  expectOrder();
  // Each goes between the last one and %last, so the room for numbers halves each time.
  for (int i = 0; i < 60; ++i)
    insertBefore(find("last"), "a" + std::to_string(i));
  expectOrder();
  // Each goes in front of all others.
  for (int i = 0; i < 60; ++i)
    insertBefore(*block.ops().front(), "b" + std::to_string(i));
  expectOrder();
}

TEST_F(BlockTest, KnowsTheOrderOfWhatWasMoved) {
  Op *a = insertBefore(find("last"), "a"), *b = insertBefore(find("last"), "b");
  b->moveBefore(block.ops().front().get());
  EXPECT_TRUE(b->isBefore(a));
  a->erase();
  expectOrder();
  EXPECT_EQ(block.ops().size(), 4u);
  EXPECT_EQ(block.ops().front().get(), b);
}

TEST_F(BlockTest, NamesAreThoseOfTheFunctionAndTheModule) {
  TakenNames names(*module->functions.front());
  EXPECT_EQ(names.unique("w"), "w_2");
  EXPECT_EQ(names.unique("x"), "x_2");
  EXPECT_EQ(names.unique("first"), "first_2");
  EXPECT_EQ(names.unique("first"), "first_3");
  EXPECT_EQ(names.unique("ln.3"), "ln.3");
  EXPECT_EQ(names.unique("ln.3"), "ln_2.3");
  names.release("first_2");
  EXPECT_EQ(names.unique("first"), "first_2");
  names.take("new");
  EXPECT_EQ(names.unique("new"), "new_2");
}

TEST_F(BlockTest, FindsWeightsUntilTheyAreErased) {
  EXPECT_EQ(module->findWeight("w"), module->weights.front().get());
  module->eraseUnused();
  EXPECT_EQ(module->findWeight("w"), nullptr);
  EXPECT_TRUE(module->weights.empty());
}

} // namespace
} // namespace kiln
