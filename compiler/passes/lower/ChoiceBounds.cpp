#include "passes/lower/ChoiceBounds.h"

#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

/// The most tokens of all classes but the last, which has the longest prompts.
static constexpr std::array<int64_t, 2> promptClasses = {64, 256};
/// Numbers of sequences that get a choice of their own, besides the bound: fewer where a single prompt has many rows.
static SmallVector<int64_t, 4> sequencesOf(int64_t tokens) {
  if (tokens > promptClasses.back())
    return {1, 2, 4, 8};
  return {1, 2, 4, 16};
}

SmallVector<int64_t, 3> promptClassesOf(const Op &op) {
  SmallVector<int64_t, 3> classes = {tokensOfRows(op)->max};
  for (int64_t tokens : llvm::reverse(promptClasses))
    if (tokens < classes.front())
      classes.push_back(tokens);
  return classes;
}

std::vector<ChoiceBound> boundsOfPromptClass(const Op &op, int64_t mostTokens) {
  const int64_t most = valueAt(rowsOf(op), boundsForRows(op, INT64_MAX, mostTokens));
  const int64_t tokens = mostTokens == tokensOfRows(op)->max ? 0 : mostTokens;
  std::vector<ChoiceBound> bounds;
  // With tiles for the longest prompt of a class, one that is much shorter would leave multiprocessors idle; and up to
  // half of it, attention of the last class has one range of keys, so that two blocks that share the ranges would gain
  // nothing.
  int64_t others = promptClasses.front(); // up to so many tokens, another class has them, or tiles are small anyway
  for (int64_t bound : promptClasses)
    if (bound < mostTokens)
      others = bound;
  for (int64_t quarters : {2, 3})
    if (const int64_t rows = mostTokens * quarters / 4; rows > others)
      bounds.push_back({rows, tokens});
  for (int64_t sequences : sequencesOf(mostTokens))
    if (sequences * mostTokens < most)
      bounds.push_back({sequences * mostTokens, tokens});
  bounds.push_back({most, tokens});
  return bounds;
}

/// There are none where all must run alike. Few tokens per sequence: as many rows as sequences; attention has the fewer
/// blocks a head, the more rows there are. Prompts: short ones, and one or eight long ones, for which large tiles give
/// too few blocks. Sums of ranks: short prompts, whose values take less time to cross the link than two barriers;
/// shares of ranks, which are logits: also few rows.
SmallVector<int64_t, 3> variantRows(const Op &op, const KernelFamily &family) {
  if (family.form == KernelForm::DecodeLayers)
    return {1, 2, 4};
  bool isTensorMatmul = isTensorProduct(family);
  if (isVerified(op) && !hasFixedForm(op, family))
    return {};
  if (isProductOfFewTokens(op))
    return isTensorMatmul ? SmallVector<int64_t, 3>{8, 16, 32} : SmallVector<int64_t, 3>{1, family.rowsAtOnce, 16};
  if (isTensorMatmul)
    return {64, 256, 1024};
  if (op.is(OpKind::allGather))
    return {4, 64};
  if (anchor(op)->has(Trait::Exchange))
    return {64};
  if (family.form == KernelForm::SplitKv)
    return {1, 4, 8, 16, 32};
  return family.form == KernelForm::TensorFlash ? SmallVector<int64_t, 3>{64, 1024, 8192} : SmallVector<int64_t, 3>();
}

/// Whether one kernel of the family is much better for few rows, and another one for many.
static bool hasVariedKernels(const KernelFamily &family) {
  return isTensorProduct(family) || family.form == KernelForm::TensorFlash;
}

bool hasPromptClasses(const Op &op, const KernelFamily &family, int64_t batchInvariant) {
  return batchInvariant > 1 && hasVariedKernels(family) && tokensOfRows(op);
}

ChoiceBound choiceBoundOf(const Op &op, const KernelFamily &family, int64_t rows) {
  const bool isOfClass = hasVariedKernels(family) && tokensOfRows(op) && llvm::is_contained(promptClasses, rows);
  return {rows, isOfClass ? rows : 0};
}

std::vector<ChoiceBound> choiceBounds(const Op &op, const KernelFamily &family, int64_t batchInvariant) {
  std::vector<ChoiceBound> bounds;
  if (hasPromptClasses(op, family, batchInvariant)) {
    const SmallVector<int64_t, 3> classes = promptClassesOf(op);
    for (int64_t mostTokens : llvm::reverse(classes))
      llvm::append_range(bounds, boundsOfPromptClass(op, mostTokens));
    return bounds;
  }
  for (int64_t rows : variantRows(op, family))
    if (rows < valueAt(rowsOf(op), upperBounds(op)))
      bounds.push_back(choiceBoundOf(op, family, rows));
  bounds.push_back({valueAt(rowsOf(op), boundsToChooseFor(op)), 0});
  return bounds;
}

} // namespace kiln
