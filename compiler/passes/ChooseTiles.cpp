// choose-tiles: picks the configuration of every kernel.
//
//   %y = … {kernel = gemm_simt} : …
//     -> %y = … {kernel = gemm_simt, tile = {thread_cols = 8, thread_rows = 8, tile_cols = 128, …}} : …
//
// Ranks the family's configurations by its model: waves of blocks, operations and bytes against the target's rates, at
// dims of interest. options batch, tokens: those dims, clipped to the bounds of B and T; 0 means the bound.
//
// Refuses: ops without `kernel` (select-kernels comes first), and with one that does not run them: an error at the op.
#include "kernels/KernelFamily.h"
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

static Tile cheapestTile(const Op &op, const KernelFamily &family, const Target &target, const DimBinding &dims) {
  std::vector<Tile> tiles = family.configurations(op, target);
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

static Error chooseTiles(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetOf(module);
  if (!target)
    return target.takeError();
  DimBinding dims = dimsOfInterest(module, options);
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator))
        continue;
      Expected<const KernelFamily *> family = checkFamily(*op, **target);
      if (!family)
        return family.takeError();
      op->setAttribute("tile", cheapestTile(*op, **family, **target, dims));
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
