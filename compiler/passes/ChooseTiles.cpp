// choose-tiles: picks the configuration of every kernel.
//
//   %y = … {kernel = gemm_simt} : …
//     -> %y = … {kernel = gemm_simt, tile = {thread_cols = 8, thread_rows = 8, tile_cols = 128, …}} : …
//
// Ranks the family's configurations by its model: waves of blocks, operations and bytes against the target's rates, at
// dims of interest. options batch, tokens: those dims, clipped to the bounds of B and T; 0 means the bound.
//
// Matrix products over one token a sequence have as many rows as the batch, and what is best for one row is far from it
// for many. They get `variants`: for batches up to 1, 4 (8 in tensor cores) and 16 the kernel and tile that are best
// there, where these differ from those of the bound. So do kernels in tensor cores, whose large tiles want many rows,
// for batches up to 1 and 8.
//
// Refuses: ops without `kernel` (select-kernels comes first), and with one that does not run them: an error at the op.
#include "kernels/Problem.h"
#include "ops/Region.h"
#include "passes/Pass.h"

namespace kiln {

static DimBinding dimsOfInterest(const Module &module, const PassOptions &options) {
  DimBinding dims;
  for (const auto &dim : module.dims) {
    int64_t wanted = dim->name == "B" ? options.getInt("batch") : dim->name == "T" ? options.getInt("tokens") : 0;
    dims[dim->name] = wanted > 0 ? std::clamp(wanted, dim->min, dim->max) : dim->max;
  }
  return dims;
}

static Tile cheapestTile(const Op &op, const KernelFamily &family, const Target &target, const DimBinding &upper,
                         const DimBinding &dims) {
  std::vector<Tile> tiles = family.configurations(op, target, upper);
  assert(!tiles.empty() && "a family has a configuration for every op that it accepts");
  // The first of equals wins, so that the choice does not depend on the order of evaluation.
  const Tile *best = nullptr;
  double least = 0;
  for (const Tile &tile : tiles) {
    double seconds = family.estimate(op, tile, target, dims);
    if (!best || seconds < least) {
      best = &tile;
      least = seconds;
    }
  }
  return *best;
}

/// The batch's dim, if the op is a matrix product of which it alone decides how many rows there are.
static const DimSymbol *onlyBatch(const Op &op) {
  const Op &product = *anchor(op);
  const Type &type = product.result()->type;
  bool isOneToken = product.is(OpKind::matmul) && type.rank() == 3 && type.shape[1] == Dim(1);
  return isOneToken ? type.shape[0].getSymbol() : nullptr;
}

/// What a choice depends on besides the dims of interest: a dim, and the sizes of it that get their own.
struct VariantSizes {
  const DimSymbol *batch = nullptr;
  SmallVector<int64_t, 3> sizes;
};

static VariantSizes variantSizes(const Op &op, const KernelFamily &family) {
  // Tensor cores take rows by eight.
  if (const DimSymbol *batch = onlyBatch(op))
    return {batch, {1, family.name == "gemv_mma" ? 8 : 4, 16}};
  const Type &type = anchor(op)->result()->type;
  bool inTensorCores = family.form == KernelForm::TensorMatmul || family.form == KernelForm::TensorFlash;
  return inTensorCores && type.rank() > 2 ? VariantSizes{type.shape[0].getSymbol(), {1, 8}} : VariantSizes();
}

static std::vector<KernelVariant> chooseVariants(const Op &op, const VariantSizes &wanted, const KernelChoice &atBound,
                                                 const Target &target, DimBinding dims) {
  std::vector<KernelVariant> variants;
  DimBinding upper = upperBounds(op);
  for (int64_t size : wanted.sizes) {
    if (size >= wanted.batch->max)
      break;
    upper[wanted.batch->name] = dims[wanted.batch->name] = size;
    const KernelFamily *family = selectFamily(op, target, upper);
    KernelChoice choice{family, cheapestTile(op, *family, target, upper, dims)};
    // The same choice for the next size covers this one too.
    if (!variants.empty() && variants.back().choice == choice)
      variants.back().batch = size;
    else
      variants.push_back({size, choice});
  }
  if (!variants.empty() && variants.back().choice == atBound)
    variants.pop_back();
  return variants;
}

static Error chooseTiles(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetOf(module);
  if (!target)
    return target.takeError();
  DimBinding dims = dimsOfInterest(module, options);
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator))
        continue;
      Expected<const KernelFamily *> family = checkFamily(*op, op->attribute("kernel"), **target, upperBounds(*op));
      if (!family)
        return family.takeError();
      DimBinding upper = upperBounds(*op), interest = dims;
      // The batch of interest has a variant of its own; the configuration for all is for the bound.
      VariantSizes wanted = variantSizes(*op, **family);
      if (wanted.batch)
        interest[wanted.batch->name] = wanted.batch->max;
      KernelChoice choice{*family, cheapestTile(*op, **family, **target, upper, interest)};
      op->setAttribute("tile", choice.tile);
      op->removeAttribute("variants");
      std::vector<KernelVariant> variants;
      if (wanted.batch)
        variants = chooseVariants(*op, wanted, choice, **target, interest);
      if (!variants.empty())
        op->setAttribute("variants", variantsAttribute(variants));
    }
  return Error::success();
}

const PassDef chooseTilesPass = {
    .name = "choose-tiles",
    .summary = "Picks the configuration of each kernel by its model",
    .run = chooseTiles,
    .options = {{"batch", 1, "B to choose for; 0: its bound"}, {"tokens", 1024, "T to choose for; 0: its bound"}},
};

} // namespace kiln
