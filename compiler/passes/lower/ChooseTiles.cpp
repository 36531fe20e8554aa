// choose-tiles: picks the configuration of every kernel.
//
//   %y = … {kernel = gemm_simt} : …
//     -> %y = … {kernel = gemm_simt, tile = {thread_cols = 8, thread_rows = 8, tile_cols = 128, …}} : …
//
// Ranks the family's configurations by its model: waves of blocks, operations and bytes against the target's rates, at
// dims of interest. options batch, tokens: those dims, clipped to the bounds of B and T; 0 means the bound. Prompts are
// chosen for the bound of B: there they take the most time.
//
// The best kernel for one row differs much from the best for many. So matrix products and attention in tensor cores get
// `variants`: each gives the best kernel and tile up to a number of rows, where these differ from those for the bound.
// Prompts (option batch_invariant, unless it is 1): the kernels of an op add up in one order for all prompts of a class
// of lengths, up to 64 tokens, up to 256, and longer ones, so that a prompt has the same bits whatever the number of
// prompts beside it. The order is the one that slows the class least; of those kernels, each number of rows has the
// fastest. Variants then have `tokens`, too, and run for calls of at most so many.
//
//   variants = [{kernel = gemv_wgmma, rows = 64, tile = {…}, tokens = 64}, {kernel = gemm_wgmma, rows = 256, …}, …]
//
// In decode by tensor cores (gemv_mma_warps, gemv_wgmma, gemm_wgmma) the order follows from the shape of the weight,
// and all numbers of rows have it: a row's bits do not depend on the rows beside it.
//
// option tiles: settings by family, {layernorm = {row_threads = 1}}, or for one of the ops that the family map runs,
// {split_heads = {unroll = 8}}, which take precedence over those of map; additions are named bias and residual. The
// pass ranks the family's configurations that have the settings; if there are none, it ranks every configuration with
// the settings written over its own. A setting of map that is impossible for one op but possible for others, such as
// accesses of four elements to rows of an odd length, is ignored for that op.
//
// A measured optimum (option tuning: the database that comes with the program, a file of `kiln tune`, or none) takes
// precedence over the model, for exactly the number of rows that was measured.
//
// Refuses: ops without `kernel` (select-kernels comes first), ops with a kernel that does not run them, and settings
// that no op's kernel can have, or not together: an error at the op. Settings for a family that runs no op, or for an
// op that the module does not have.
#include "passes/Pass.h"
#include "passes/Pipeline.h"
#include "passes/lower/TileChooser.h"

namespace kiln {

static DimBinding dimsOfInterest(const Module &module, const PassOptions &options) {
  DimBinding dims;
  for (const auto &dim : module.dims) {
    int64_t wanted = dim.get() == module.batchDim()    ? options.getInt("batch")
                     : dim.get() == module.tokensDim() ? options.getInt("tokens")
                                                       : 0;
    dims[dim->name] = wanted > 0 ? std::clamp(wanted, dim->min, dim->max) : dim->max;
  }
  return dims;
}

static Error chooseTiles(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetOf(module);
  if (!target)
    return target.takeError();
  for (const auto &[name, settings] : options.getDict("tiles"))
    if (settings.kind() != Attribute::Kind::Dict)
      return makeError(module.loc, "choose-tiles: tiles: expected settings of " + name + " like {threads = 128}, got " +
                                       settings.str());
  SourceManager sources;
  Expected<TuningDatabase> measured = openTuning(options.getString("tuning"), (*target)->name, sources);
  if (!measured)
    return measured.takeError();
  int64_t batchInvariant = options.getInt("batch_invariant");
  if (batchInvariant < 1 || batchInvariant > mostBatchInvariant)
    return makeError(module.loc, "choose-tiles: batch_invariant: expected 1 to " + Twine(mostBatchInvariant) +
                                     ", got " + Twine(batchInvariant));
  module.attributes.insert_or_assign(ModuleAttribute::batchInvariant.str(), batchInvariant);
  TileChooser chooser(**target, options.getDict("tiles"), dimsOfInterest(module, options), *measured, batchInvariant);
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator))
        continue;
      if (Error error = chooser.choose(*op))
        return error;
    }
  return chooser.checkUse(module);
}

const PassDef chooseTilesPass = {
    .name = "choose-tiles",
    .summary = "Picks the configuration of each kernel by its model",
    .run = chooseTiles,
    .options = {{"batch", 1, "B to choose for; 0: its bound"},
                {"tokens", 1024, "T to choose for; 0: its bound"},
                {"tiles", AttributeMap(), "settings of families or elementwise ops: {layernorm = {row_threads = 1}}"},
                {"batch_invariant", 8,
                 "2 or more: a row's bits do not depend on those beside it, if kernels allow. 1: off"},
                {"tuning", Attribute::text("shipped"), "what was measured: shipped, none, or a file of kiln tune"}},
    .sets = {"tile", "variants"},
};

} // namespace kiln
