// The kernels of prompts: one order of sums for each class of lengths.
#include "kernels/families/KernelFamily.h"

#include "driver/Compile.h"
#include "kernels/cost/Problem.h"
#include "plan/Plan.h"
#include "strategies/Strategy.h"

#include "TestSupport.h"

namespace kiln {
namespace {

/// Calls `visit` with the ops over prompts of a model of one layer whose kernels depend on the number of rows or may,
/// and their variants, the op's own choice last.
void forEachPromptOp(StringRef model, StringRef target, int64_t batchInvariant,
                     function_ref<void(const Op &, ArrayRef<KernelVariant>)> visit, StringRef strategy = "fusion=on",
                     int64_t maxBatch = 64, std::optional<int64_t> positions = {}) {
  SourceManager sources;
  CompileOptions options;
  expectSuccess(applyStrategies(strategy, options.pipeline));
  options.pipeline.target = target.str();
  options.pipeline.dtype = "bf16";
  options.pipeline.batchInvariant = batchInvariant;
  options.build.layers = 1;
  options.build.maxBatch = maxBatch;
  options.build.positions = positions;
  auto module = unwrap(compileToStage(sourcePath(model), Stage::Plan, options, sources));
  for (const auto &function : module->functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator) || !tokensOfRows(*op))
        continue;
      std::vector<KernelVariant> variants = variantsOf(*op);
      variants.push_back({INT64_MAX, 0, choiceOf(*op)});
      visit(*op, variants);
    }
}

/// The orders of the kernels that calls of B sequences of T tokens come to, by the class of T.
std::map<int, std::set<std::string>> ordersOf(const Op &op, ArrayRef<KernelVariant> variants, int64_t maxBatch = 64) {
  std::map<int, std::set<std::string>> orders;
  for (int64_t tokens : {1, 8, 63, 64, 65, 200, 256, 257, 700, 1024})
    for (int64_t batch : {1, 2, 4, 5, 16, 17, 40, 64}) {
      if (batch > maxBatch)
        break;
      auto found = llvm::find_if(variants, [&](const KernelVariant &variant) {
        return batch * tokens <= variant.rows && (variant.tokens == 0 || tokens <= variant.tokens);
      });
      orders[tokens <= 64 ? 0 : tokens <= 256 ? 1 : 2].insert(orderOfSums(op, found->choice));
    }
  return orders;
}

TEST(PromptTiles, AClassOfLengthsHasOneOrderOfSums) {
  int varied = 0;
  for (StringRef size : {"124m", "355m", "774m", "1558m"})
    for (StringRef target : {"sm_80", "sm_90a", "sm_120"})
      forEachPromptOp(("graphs/gpt2-" + size + ".toml").str(), target, 8,
                      [&](const Op &op, ArrayRef<KernelVariant> variants) {
                        varied += variants.size() > 1;
                        for (const auto &[number, orders] : ordersOf(op, variants))
                          EXPECT_EQ(orders.size(), 1u)
                              << size.str() << ' ' << target.str() << ' ' << number << ' ' << llvm::join(orders, " | ");
                      });
  EXPECT_GT(varied, 50) << "kernels depend on the number of rows";
}

// So a prompt has the same bits by a plan for one sequence as by one for many.
TEST(PromptTiles, TheOrderDoesNotDependOnTheLargestBatch) {
  for (StringRef size : {"124m", "1558m"}) {
    std::map<std::string, std::map<int, std::set<std::string>>> all;
    auto expectSame = [&](int64_t maxBatch) {
      forEachPromptOp(("graphs/gpt2-" + size + ".toml").str(), "sm_90a", 8,
                      [&](const Op &op, ArrayRef<KernelVariant> variants) {
                        std::string name = op.parent()->function()->name + " " + op.result()->name;
                        auto [known, isNew] = all.try_emplace(name, ordersOf(op, variants, maxBatch));
                        EXPECT_TRUE(isNew || known->second == ordersOf(op, variants, maxBatch))
                            << name << ", batch " << maxBatch;
                      },
                      "fusion=on", maxBatch);
    };
    for (int64_t maxBatch : {64, 8, 1})
      expectSame(maxBatch);
    EXPECT_EQ(all.size(), 10u);
  }
}

TEST(PromptTiles, KernelsOfAnyOrderAreChosenOnRequest) {
  int mixed = 0;
  forEachPromptOp("graphs/gpt2-124m.toml", "sm_90a", 1, [&](const Op &op, ArrayRef<KernelVariant> variants) {
    for (const auto &[number, orders] : ordersOf(op, variants))
      mixed += orders.size() > 1;
    for (const KernelVariant &variant : variants)
      EXPECT_EQ(variant.tokens, 0);
  });
  EXPECT_GT(mixed, 0);
}

/// Those of Hopper for many rows have the order of two splits; those before it have one for few rows only.
TEST(PromptTiles, KernelsOfFewRowsCanBeRequested) {
  for (StringRef target : {"sm_80", "sm_90a"}) {
    int splits = 0;
    forEachPromptOp(
        "graphs/gpt2-124m.toml", target, 8,
        [&](const Op &op, ArrayRef<KernelVariant> variants) {
          for (const KernelVariant &variant : variants)
            splits += variant.choice.family->name == "gemm_mma_split_k";
        },
        "matmul=split_k{splits=2}");
    EXPECT_GT(splits, 0) << target.str();
  }
}

/// Also where the bound of a variant is no multiple of the longest prompt.
TEST(PromptTiles, ScratchIsEnoughForEachVariant) {
  int checked = 0;
  forEachPromptOp(
      "graphs/gpt2-124m.toml", "sm_80", 1,
      [&](const Op &op, ArrayRef<KernelVariant> variants) {
        const std::optional<Expr> scratch = workspaceBytes(op);
        for (const KernelVariant &variant : variants)
          for (int64_t batch = 1; variant.choice.family->workspace && batch <= 8; ++batch) {
            const DimBinding dims = {{"B", batch}, {"T", std::min<int64_t>(768, variant.rows / batch)}};
            ASSERT_TRUE(scratch);
            EXPECT_GE(valueAt(*scratch, dims), valueAt(variant.choice.family->workspace(op, variant.choice.tile), dims))
                << op.result()->name << ", " << batch << " sequences, variant of " << variant.rows << " rows";
            checked += variant.rows == 1024;
          }
      },
      "matmul=split_k{splits=2}", 8, 768);
  EXPECT_GT(checked, 0);
}

/// A step with variants of these bounds, whose kernels are named after them.
PlanStep stepOf(ArrayRef<std::pair<int64_t, int64_t>> bounds) {
  PlanStep step;
  step.rows = unwrap(Expr::parse("B*T"));
  step.tokens = "T";
  step.launch.kernel = "any";
  for (auto [tokens, rows] : bounds) {
    PlanVariant &variant = step.variants.emplace_back();
    variant.tokens = tokens;
    variant.rows = rows;
    variant.launch.kernel = std::to_string(tokens) + "x" + std::to_string(rows);
  }
  return step;
}

TEST(PromptTiles, ACallTakesTheFirstVariantWithEnoughTokensAndRows) {
  PlanStep step = stepOf({{64, 64}, {64, 4096}, {256, 256}, {0, 1024}});
  auto kernelFor = [&](int64_t batch, int64_t tokens) { return step.launchFor({{"B", batch}, {"T", tokens}}).kernel; };
  EXPECT_EQ(kernelFor(1, 64), "64x64");
  EXPECT_EQ(kernelFor(2, 40), "64x4096");
  EXPECT_EQ(kernelFor(1, 65), "256x256");
  EXPECT_EQ(kernelFor(3, 100), "0x1024");
  EXPECT_EQ(kernelFor(1, 1024), "0x1024");
  EXPECT_EQ(kernelFor(2, 1000), "any");
}

TEST(PromptTiles, LaunchesThatNoCallTakesAreDropped) {
  for (auto [batch, tokens] : {std::pair<int64_t, int64_t>{1, 64}, {1, 300}, {4, 64}, {4, 256}, {5, 1024}}) {
    PlanStep whole = stepOf({{64, 64}, {64, 256}, {64, 4096}, {256, 256}, {0, 1024}}), step = whole;
    step.restrictTo({{"B", batch}, {"T", tokens}});
    std::set<std::string> kept, taken;
    for (const PlanLaunch *launch : step.launches())
      kept.insert(launch->kernel);
    for (int64_t b = 1; b <= batch; ++b)
      for (int64_t t = 1; t <= tokens; ++t) {
        DimBinding dims = {{"B", b}, {"T", t}};
        EXPECT_EQ(step.launchFor(dims).kernel, whole.launchFor(dims).kernel) << b << ' ' << t;
        taken.insert(whole.launchFor(dims).kernel);
      }
    EXPECT_EQ(kept, taken) << batch << ' ' << tokens;
  }
}

TEST(CacheBounds, ACallHasTheKernelsForAsManyTokensInTheCache) {
  PlanStep step = stepOf({{128, 8}, {128, 32}, {512, 32}, {0, 8}});
  step.tokens = pastTokens;
  Plan plan;
  plan.functions.emplace_back().steps = {step, stepOf({{64, 4096}})};
  const CacheBounds bounds(plan);
  auto kernelFor = [&](int64_t batch, int64_t past) {
    DimBinding dims = {{"B", batch}, {"T", 1}};
    bounds.addTo(dims, past);
    return step.launchFor(dims).kernel;
  };
  EXPECT_EQ(kernelFor(8, 0), "128x8");
  EXPECT_EQ(kernelFor(9, 128), "128x32");
  EXPECT_EQ(kernelFor(8, 129), "512x32");
  EXPECT_EQ(kernelFor(8, 513), "0x8");
  EXPECT_EQ(kernelFor(9, 513), "any");
  EXPECT_EQ(bounds.of(64), 128); // not the prompts' bound
  EXPECT_EQ(bounds.of(513), 0);
  // A call that does not say how many.
  EXPECT_EQ(step.launchFor({{"B", 1}, {"T", 1}}).kernel, "0x8");
}

TEST(CacheBounds, KernelsForFewTokensInTheCacheStay) {
  PlanStep step = stepOf({{128, 8}, {128, 32}, {0, 8}});
  step.tokens = pastTokens;
  step.restrictTo({{"B", 4}, {"T", 1}});
  ASSERT_EQ(step.variants.size(), 1u);
  EXPECT_EQ(step.variants[0].launch.kernel, "128x8");
  EXPECT_EQ(step.launch.kernel, "0x8");
}

} // namespace
} // namespace kiln
