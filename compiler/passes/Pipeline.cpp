#include "passes/Pipeline.h"

#include "kernels/families/KernelFamily.h"

namespace kiln {

/// Whether the kernels for matrix products can be those that hand out statistics of rows: a rung of the ladder cannot.
static bool handsOutStatistics(const PipelineOptions &options) {
  const Attribute *wanted = findAttribute(options.kernels, "matmul");
  const KernelFamily *family = wanted ? findKernelFamily(wanted->asString()) : nullptr;
  return !family || family->form == KernelForm::TensorMatmul;
}

/// Whether the kernels for matrix products can be those that compute statistics of rows beside them.
static bool computesStatisticsBeside(const PipelineOptions &options) {
  const Attribute *wanted = findAttribute(options.kernels, "matmul");
  const KernelFamily *family = wanted ? findKernelFamily(wanted->asString()) : nullptr;
  return options.matmul == "generated" && (!family || family->rowVectors > 0);
}

/// Whether the kernels for products of few rows can be those that add up the parts of all ranks.
static bool sumsPartsOfRanks(const PipelineOptions &options) {
  const Attribute *wanted = findAttribute(options.kernels, "matmul");
  const KernelFamily *family = wanted ? findKernelFamily(wanted->asString()) : nullptr;
  return options.ranks > 1 && (!family || family->inbox);
}

/// Whether nothing was chosen that one kernel for all of @decode would not show.
static bool leavesDecodeOpen(const PipelineOptions &options) {
  return options.kernels.empty() && options.tiles.empty() && options.without.empty() && options.options.empty() &&
         !options.stepByStep && !options.serial;
}

/// Whether the pass decides which kernels there are: those from defer-norm on, in the order of Passes.def.
static bool isAboutKernels(const PassDef &pass) {
  auto position = [](const PassDef &one) { return llvm::find(allPasses(), &one) - allPasses().begin(); };
  return position(pass) >= position(deferNormPass);
}

size_t endOf(Stage stage, ArrayRef<PassInvocation> passes) {
  auto isLater = [&](const PassInvocation &invocation) {
    return stage == Stage::Graph ? invocation.pass != &shardTensorsPass
                                 : stage == Stage::Fused && isAboutKernels(*invocation.pass);
  };
  return static_cast<size_t>(llvm::find_if(passes, isLater) - passes.begin());
}

std::vector<PassInvocation> pipeline(Stage stage, const PipelineOptions &options) {
  std::vector<PassInvocation> passes;
  auto add = [&](const PassDef &pass, AttributeMap given = {}) {
    if (options.without.count(&pass))
      return;
    if (auto more = options.options.find(&pass); more != options.options.end())
      given.insert(more->second.begin(), more->second.end());
    passes.push_back(cantFail(makeInvocation(pass, given), "pipeline"));
  };
  // On how many GPUs
  if (options.ranks > 1)
    add(shardTensorsPass, {{"ranks", options.ranks}});

  // What is computed
  add(canonicalizePass);
  add(eliminateCommonSubexpressionsPass);
  add(hoistLastRowPass);
  add(windowAttentionPass);
  add(insertKvCachePass);
  add(hoistLastRowPass, {{"attention", true}});
  add(deriveVerifyPass, {{"tokens", options.draftTokens > 0 ? options.draftTokens + 1 : 0}});
  add(foldNormParametersPass);

  // In which types and layouts
  add(assignPrecisionPass, {{"dtype", Attribute::ident(options.dtype)}, {"target", Attribute::ident(options.target)}});
  add(packWeightsPass);
  add(canonicalizePass);
  add(eliminateDeadValuesPass);

  // In how many kernels
  add(fuseAttentionPass);
  add(fuseMaskPass);
  add(fuseEpiloguePass);
  add(fuseScorePass);
  add(fuseNormPass);
  add(expandLayernormPass);
  const bool ifFaster = options.decode == "auto" && leavesDecodeOpen(options);
  if (ifFaster || options.decode == "persistent")
    add(formPersistentKernelPass, {{"target", Attribute::ident(options.target)},
                                   {"when_faster", ifFaster},
                                   {"for_one", ifFaster && options.batchInvariant == 1}});

  // By which kernels, where in memory
  // The library's products add a bias first.
  if (options.matmul == "generated")
    add(deferNormPass, {{"target", Attribute::ident(options.target)}});
  if (handsOutStatistics(options))
    add(gatherStatisticsPass, {{"target", Attribute::ident(options.target)}});
  if (computesStatisticsBeside(options))
    add(fuseStatisticsPass, {{"target", Attribute::ident(options.target)}});
  if (sumsPartsOfRanks(options))
    add(fuseExchangePass, {{"target", Attribute::ident(options.target)}});
  add(splitNormPass, {{"target", Attribute::ident(options.target)}});
  add(splitScorePass, {{"target", Attribute::ident(options.target)}});
  add(selectKernelsPass, {{"target", Attribute::ident(options.target)},
                          {"matmul", Attribute::ident(options.matmul)},
                          {"kernels", options.kernels}});
  add(chooseTilesPass, {{"tiles", options.tiles},
                        {"tuning", Attribute::text(options.tuning)},
                        {"batch_invariant", options.batchInvariant}});
  add(placeParametersPass);
  add(planMemoryPass);
  passes.erase(passes.begin() + static_cast<ptrdiff_t>(endOf(stage, passes)), passes.end());
  return passes;
}

} // namespace kiln
