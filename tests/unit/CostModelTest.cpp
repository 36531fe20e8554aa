// Models of kernel times: all that they know about a GPU is in graphs/targets.
#include "kernels/families/KernelFamily.h"

#include "driver/Compile.h"
#include "kernels/cost/Problem.h"
#include "strategies/Strategy.h"

#include "TestSupport.h"

namespace kiln {
namespace {

/// A GPU that does everything in twice the time of another.
Target twiceAsSlow(Target target) {
  KernelTimes &times = target.times;
  for (double *rate : {&target.memoryRate, &target.l2Rate, &target.f32Rate, &target.tensorRate, &target.mmaRate,
                       &times.clock, &times.mmaWarps.rowsRate, &times.splitKv.loadRate, &times.wgmmaRows.rowsRate,
                       &times.wgmmaRows.exchangeRate, &times.wgmmaTiled.exchangeRate, &times.wgmmaFlash.loadRate})
    *rate /= 2;
  for (double *time : {&target.launchSeconds,     &times.memoryLatency,           &times.blockStart,
                       &times.blockReduction,     &times.rowProduct.normalize,    &times.rowProduct.normalizeWarp,
                       &times.rowProduct.tile,    &times.rowProduct.turn,         &times.mmaRows.round,
                       &times.mmaTiled.ends,      &times.mmaWarps.block,          &times.mmaWarps.ends,
                       &times.mmaWarps.ahead,     &times.mmaTiled.output,         &times.mmaSplit.sum,
                       &times.library.ends,       &times.splitKv.round,           &times.splitKv.blockStart,
                       &times.splitKv.exchange,   &times.splitKv.clusterExchange, &times.wgmmaTiled.output,
                       &times.wgmmaTiled.element, &times.wgmmaTiled.ends,         &times.wgmmaRows.ends,
                       &times.wgmmaTiled.cluster, &times.wgmmaTiled.exchange,     &times.wgmmaRows.step,
                       &times.wgmmaRows.exchange, &times.mmaFlash.ends,           &times.wgmmaFlash.fill,
                       &times.wgmmaFlash.ends,    &times.decodeLayers.layer,      &times.decodeLayers.row,
                       &times.decodeLayers.ends})
    *time *= 2;
  return target;
}

/// Calls `visit` with every op of GPT-2's functions, one layer, and every family that runs it.
void forEachChoice(StringRef strategy, const Target &target, int64_t batch,
                   function_ref<void(const Op &, const KernelFamily &)> visit, int64_t ranks = 1) {
  SourceManager sources;
  CompileOptions options;
  options.pipeline.ranks = ranks;
  expectSuccess(applyStrategies(strategy, options.pipeline));
  options.pipeline.target = target.name;
  options.build = {batch, 1, 1024};
  auto module = unwrap(compileToStage(sourcePath("graphs/gpt2-124m.toml"), Stage::Plan, options, sources));
  for (const auto &function : module->functions)
    for (const auto &op : function->body.ops())
      for (const KernelFamily *family : allKernelFamilies())
        if (!op->has(Trait::Terminator) && family->runs(*op, target, upperBounds(*op)))
          visit(*op, *family);
}

TEST(CostModel, NoTimeOfAGpuIsInTheCode) {
  const Target &target = *cantFail(findTarget("sm_90a"), "a target of this project");
  const Target slow = twiceAsSlow(target);
  std::set<StringRef> seen;
  auto check = [&](const Op &op, const KernelFamily &family) {
    seen.insert(family.name);
    DimBinding dims = upperBounds(op);
    for (const Tile &tile : family.configurations(op, target, dims)) {
      ASSERT_TRUE(family.isSound(op, tile)) << family.name.str() << ' ' << Attribute(tile).str();
      double seconds = family.estimate(op, tile, target, dims);
      ASSERT_NEAR(family.estimate(op, tile, slow, dims) / seconds, 2, 1e-9)
          << family.name.str() << ' ' << Attribute(tile).str();
    }
  };
  for (int64_t batch : {1, 8, 64})
    for (StringRef strategy :
         {"precision=f32", "precision=tf32,fusion=off,attention=tensor", "precision=bf16",
          "precision=bf16,layernorm=best", "precision=tf32,layernorm=best", "precision=bf16,attention=windowed{w=128}",
          "attention=triangular{rung=2}", "precision=f16,attention=unfused,layernorm=2,fusion=off"})
      forEachChoice(strategy, target, batch, check);
  forEachChoice("precision=bf16,decode=persistent", target, /*batch=*/8, check);
  forEachChoice("precision=bf16", target, /*batch=*/8, check, /*ranks=*/2);
  for (const KernelFamily *family : allKernelFamilies())
    EXPECT_TRUE(seen.count(family->name)) << family->name.str() << " ran nothing";
}

TEST(CostModel, EveryTargetHasTimes) {
  for (const Target &target : allTargets()) {
    SCOPED_TRACE(target.name);
    EXPECT_GT(target.times.clock, 1e9);
    EXPECT_GT(target.times.memoryLatency, 0);
    EXPECT_EQ(target.hasWgmma, target.name == "sm_90a");
  }
}

} // namespace
} // namespace kiln
