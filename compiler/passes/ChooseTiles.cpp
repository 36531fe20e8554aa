// choose-tiles: picks the configuration of every kernel.
//
//   %y = … {kernel = gemm_simt} : …
//     -> %y = … {kernel = gemm_simt, tile = {thread_cols = 8, thread_rows = 8, tile_cols = 128, …}} : …
//
// Ranks the family's configurations by its model: waves of blocks, operations and bytes against the target's rates, at
// dims of interest. options batch, tokens: those dims, clipped to the bounds of B and T; 0 means the bound. Prompts are
// chosen for the bound of B: there they take the most time.
//
// What is best for one row is far from what is best for many. So matrix products and attention in tensor cores get
// `variants`: for up to so many rows the kernel and tile that are best there, where these differ from those of the
// bound.
//
// Refuses: ops without `kernel` (select-kernels comes first), and with one that does not run them: an error at the op.
#include "kernels/Families.h"
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

/// Numbers of rows that get a choice of their own. One token a sequence: as many rows as sequences, which tensor cores
/// take by eight. Prompts: short ones, and a long one or eight of them, which large tiles leave too few blocks.
static SmallVector<int64_t, 3> variantRows(const Op &op, const KernelFamily &family) {
  const Op &product = *anchor(op);
  const Type &type = product.result()->type;
  if (product.is(OpKind::matmul) && type.rank() == 3 && type.shape[1] == Dim(1))
    return {1, family.name == "gemv_mma" ? 8 : 4, 16};
  if (family.form == KernelForm::TensorMatmul)
    return {64, 256, 1024};
  return family.form == KernelForm::TensorFlash ? SmallVector<int64_t, 3>{1024, 8192} : SmallVector<int64_t, 3>();
}

/// Few rows may be worth another family than many. One token a sequence takes the first that accepts it; of those for
/// prompts, in tensor cores, the models can be compared.
static KernelChoice chooseForRows(const Op &op, const Target &target, const DimBinding &dims) {
  const KernelFamily *first = selectFamily(op, target, dims);
  KernelChoice best{first, cheapestTile(op, *first, target, dims, dims)};
  const Type &type = anchor(op)->result()->type;
  if (type.rank() != 3 || !type.shape[1].getSymbol())
    return best;
  double least = first->estimate(op, best.tile, target, dims);
  for (const KernelFamily *family : {&mmaTiledFamily, &mmaTiledSplitFamily}) {
    if (!family->accepts(op, target, dims))
      continue;
    Tile tile = cheapestTile(op, *family, target, dims, dims);
    double seconds = family->estimate(op, tile, target, dims);
    if (seconds < least) {
      best = {family, std::move(tile)};
      least = seconds;
    }
  }
  return best;
}

static std::vector<KernelVariant> chooseVariants(const Op &op, ArrayRef<int64_t> rows, const KernelChoice &atBound,
                                                 const Target &target) {
  std::vector<KernelVariant> variants;
  for (int64_t most : rows) {
    if (most >= valueAt(rowsOf(op), upperBounds(op)))
      break;
    KernelChoice choice = chooseForRows(op, target, boundsForRows(op, most));
    // The same choice for more rows covers this one too.
    if (!variants.empty() && variants.back().choice == choice)
      variants.back().rows = most;
    else
      variants.push_back({most, choice});
  }
  if (!variants.empty() && variants.back().choice == atBound)
    variants.pop_back();
  return variants;
}

/// The dims to choose for: those of interest, but the bound of B where few rows have variants, and for all that
/// runs over prompts, which take the most time there.
static DimBinding dimsToChooseFor(const Op &op, bool hasVariants, DimBinding dims) {
  const Type &type = anchor(op)->result()->type;
  bool isPrompts = type.rank() > 2 && type.shape[1].getSymbol();
  if (const DimSymbol *batch = type.rank() > 0 ? type.shape[0].getSymbol() : nullptr;
      batch && (hasVariants || isPrompts))
    dims[batch->name] = batch->max;
  return dims;
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
      SmallVector<int64_t, 3> rows = variantRows(*op, **family);
      DimBinding interest = dimsToChooseFor(*op, !rows.empty(), dims);
      KernelChoice choice{*family, cheapestTile(*op, **family, **target, upperBounds(*op), interest)};
      op->setAttribute("tile", choice.tile);
      op->removeAttribute("variants");
      std::vector<KernelVariant> variants = chooseVariants(*op, rows, choice, **target);
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
