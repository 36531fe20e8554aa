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
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/tuning/Tuning.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "support/Diagnostic.h"

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

static bool isTensorProduct(const KernelFamily &family) {
  return family.form == KernelForm::TensorMatmul || family.form == KernelForm::TensorScore;
}

/// Numbers of rows that get a choice of their own. One token per sequence: as many rows as sequences. Prompts: short
/// ones, and one or eight long ones, for which large tiles give too few blocks.
static SmallVector<int64_t, 3> variantRows(const Op &op, const KernelFamily &family) {
  const Op &product = *anchor(op);
  const Type &type = product.result()->type;
  if (product.is(OpKind::matmul) && type.rank() == 3 && type.shape[1] == Dim(1))
    return {1, family.rowsAtOnce, 16};
  if (isTensorProduct(family))
    return {64, 256, 1024};
  return family.form == KernelForm::TensorFlash ? SmallVector<int64_t, 3>{64, 1024, 8192} : SmallVector<int64_t, 3>();
}

/// The dims to choose for: those of interest, but the bound of B for ops whose few rows have variants, and for all ops
/// over prompts, which take the most time there.
static DimBinding dimsToChooseFor(const Op &op, bool hasVariants, DimBinding dims) {
  const Type &type = anchor(op)->result()->type;
  bool isPrompts = type.rank() > 2 && type.shape[1].getSymbol();
  if (const DimSymbol *batch = type.rank() > 0 ? type.shape[0].getSymbol() : nullptr;
      batch && (hasVariants || isPrompts))
    dims[batch->name] = batch->max;
  return dims;
}

static bool hasSettings(const Tile &tile, const AttributeMap &settings) {
  return llvm::all_of(settings, [&](const auto &setting) {
    auto it = tile.find(setting.first);
    return it != tile.end() && it->second == setting.second;
  });
}

/// The name of an op in option `tiles`, besides its family's; nothing for ops that have a family of their own.
static StringRef nameOfElementwise(const Op &op, const KernelFamily &family) {
  if (&family != &mapFamily)
    return "";
  return op.is(OpKind::add) ? (op.operand(1)->isWeight() ? "bias" : "residual") : op.mnemonic();
}

namespace {

/// Chooses for the ops of one module.
class TileChooser {
public:
  /// `measured` may be null.
  TileChooser(const Target &target, const AttributeMap &wanted, DimBinding interest, const TuningDatabase *measured)
      : target(target), wanted(wanted), interest(std::move(interest)), measured(measured) {}

  /// Gives the op `tile`, and `variants` if it has any.
  Error choose(Op &op);
  /// Error: settings that no op was given, or can have.
  Error checkUse(const Module &module) const;

private:
  const AttributeMap &wantedOf(StringRef name);
  Expected<std::vector<Tile>> withSettings(const Op &op, const KernelFamily &family, const DimBinding &upper,
                                           const AttributeMap &settings) const;
  Expected<std::vector<Tile>> candidates(const Op &op, const KernelFamily &family, const DimBinding &upper);
  Expected<Tile> cheapestTile(const Op &op, const KernelFamily &family, const DimBinding &upper,
                              const DimBinding &dims);
  std::optional<KernelChoice> measuredChoice(const Op &op, const DimBinding &dims) const;
  Expected<KernelChoice> chooseForRows(const Op &op, const DimBinding &dims);
  Expected<std::vector<KernelVariant>> chooseVariants(const Op &op, ArrayRef<int64_t> rows,
                                                      const KernelChoice &atBound);

  const Target &target;
  const AttributeMap &wanted; ///< settings by family or elementwise op
  DimBinding interest;
  const TuningDatabase *measured;
  std::set<std::string> used; ///< names of `wanted`
  // Settings of map.
  std::set<std::string> taken;                               ///< by some op
  std::map<std::string, std::vector<Diagnostic>> impossible; ///< for some op: why
};

/// The settings of a family or elementwise op.
const AttributeMap &TileChooser::wantedOf(StringRef name) {
  static const AttributeMap none;
  auto it = wanted.find(name);
  if (it == wanted.end())
    return none;
  used.insert(it->first);
  return it->second.asDict();
}

/// The family's configurations that have the settings; if there are none, all of them with the settings written over
/// theirs. Error: none of these is valid.
Expected<std::vector<Tile>> TileChooser::withSettings(const Op &op, const KernelFamily &family, const DimBinding &upper,
                                                      const AttributeMap &settings) const {
  std::vector<Tile> tiles = family.configurations(op, target, upper), chosen;
  assert(!tiles.empty() && "a family has a configuration for every op that it accepts");
  llvm::copy_if(tiles, std::back_inserter(chosen), [&](const Tile &tile) { return hasSettings(tile, settings); });
  if (!chosen.empty())
    return chosen;
  Error unsound = Error::success();
  for (Tile &tile : tiles) {
    for (const auto &[name, value] : settings)
      tile.insert_or_assign(name, value);
    Attribute attribute = tile;
    llvm::consumeError(std::move(unsound));
    unsound = checkTile(op, family, &attribute, target, upper);
    if (!unsound)
      chosen.push_back(std::move(tile));
  }
  if (chosen.empty())
    return unsound;
  llvm::consumeError(std::move(unsound));
  return chosen;
}

/// The family's configurations with the requested settings. The ops that map runs have little in common, so a setting
/// requested for the whole family is ignored for ops that cannot have it. A setting requested for one op is mandatory.
Expected<std::vector<Tile>> TileChooser::candidates(const Op &op, const KernelFamily &family, const DimBinding &upper) {
  const AttributeMap &shared = wantedOf(family.name), &own = wantedOf(nameOfElementwise(op, family));
  AttributeMap settings = own;
  settings.insert(shared.begin(), shared.end());
  auto tiles = withSettings(op, family, upper, settings);
  if (&family != &mapFamily)
    return tiles;
  if (tiles) {
    for (const auto &[name, value] : shared)
      taken.insert(name);
    return tiles;
  }
  std::vector<Diagnostic> why = takeDiagnostics(tiles.takeError());
  for (const auto &[name, value] : shared) {
    if (own.count(name))
      continue;
    AttributeMap others = settings;
    others.erase(name);
    auto without = withSettings(op, family, upper, others);
    if (without) {
      impossible.insert({name, why});
      for (const auto &[other, value] : shared)
        if (other != name)
          taken.insert(other);
      return without;
    }
    llvm::consumeError(without.takeError());
  }
  return llvm::make_error<DiagnosticError>(why);
}

Expected<Tile> TileChooser::cheapestTile(const Op &op, const KernelFamily &family, const DimBinding &upper,
                                         const DimBinding &dims) {
  Expected<std::vector<Tile>> tiles = candidates(op, family, upper);
  if (!tiles)
    return tiles.takeError();
  // The first of equals wins, so that the choice does not depend on the order of evaluation.
  const Tile *best = nullptr;
  double least = 0;
  for (const Tile &tile : *tiles) {
    double seconds = family.estimate(op, tile, target, dims);
    if (!best || seconds < least) {
      best = &tile;
      least = seconds;
    }
  }
  return *best;
}

/// The measured optimum for dims up to these, unless the module prefers a kernel or its settings. A measurement that no
/// longer fits its template is ignored.
std::optional<KernelChoice> TileChooser::measuredChoice(const Op &op, const DimBinding &dims) const {
  if (!measured || preferredFamily(op))
    return std::nullopt;
  const TunedChoice *found = measured->find(problemName(op), valueAt(rowsOf(op), dims));
  if (!found || wanted.count(found->choice.family->name) ||
      wanted.count(nameOfElementwise(op, *found->choice.family)) || !found->choice.family->runs(op, target, dims))
    return std::nullopt;
  Attribute tile = found->choice.tile;
  if (Error unsound = checkTile(op, *found->choice.family, &tile, target, dims)) {
    llvm::consumeError(std::move(unsound));
    return std::nullopt;
  }
  return found->choice;
}

/// Few rows may run faster with another family than many. With one token per sequence, the first family that accepts
/// the op is used; for prompts in tensor cores the families' models are compared, unless the module prefers one.
Expected<KernelChoice> TileChooser::chooseForRows(const Op &op, const DimBinding &dims) {
  if (std::optional<KernelChoice> best = measuredChoice(op, dims))
    return *best;
  const KernelFamily *first = selectFamily(op, target, dims);
  Expected<Tile> tile = cheapestTile(op, *first, dims, dims);
  if (!tile)
    return tile.takeError();
  KernelChoice best{first, std::move(*tile)};
  const Type &type = anchor(op)->result()->type;
  if (type.rank() != 3 || !type.shape[1].getSymbol() || first == preferredFamily(op))
    return best;
  double least = first->estimate(op, best.tile, target, dims);
  for (const KernelFamily *family : allKernelFamilies()) {
    bool isCandidate = isTensorProduct(*family) && !family->byRequestOnly;
    if (!isCandidate || !family->runs(op, target, dims))
      continue;
    Expected<Tile> other = cheapestTile(op, *family, dims, dims);
    if (!other)
      return other.takeError();
    double seconds = family->estimate(op, *other, target, dims);
    if (seconds < least) {
      best = {family, std::move(*other)};
      least = seconds;
    }
  }
  return best;
}

Expected<std::vector<KernelVariant>> TileChooser::chooseVariants(const Op &op, ArrayRef<int64_t> rows,
                                                                 const KernelChoice &atBound) {
  std::vector<KernelVariant> variants;
  for (int64_t most : rows) {
    if (most >= valueAt(rowsOf(op), upperBounds(op)))
      break;
    Expected<KernelChoice> choice = chooseForRows(op, boundsForRows(op, most));
    if (!choice)
      return choice.takeError();
    // The same choice for more rows covers this one too.
    if (!variants.empty() && variants.back().choice == *choice)
      variants.back().rows = most;
    else
      variants.push_back({most, std::move(*choice)});
  }
  if (!variants.empty() && variants.back().choice == atBound)
    variants.pop_back();
  return variants;
}

Error TileChooser::choose(Op &op) {
  Expected<const KernelFamily *> family = checkFamily(op, op.attribute("kernel"), target, upperBounds(op));
  if (!family)
    return family.takeError();
  SmallVector<int64_t, 3> rows = variantRows(op, **family);
  Expected<Tile> tile = cheapestTile(op, **family, upperBounds(op), dimsToChooseFor(op, !rows.empty(), interest));
  if (!tile)
    return tile.takeError();
  KernelChoice choice{*family, std::move(*tile)};
  if ((*family)->form != KernelForm::Library)
    choice = measuredChoice(op, upperBounds(op)).value_or(choice);
  Expected<std::vector<KernelVariant>> variants = chooseVariants(op, rows, choice);
  if (!variants)
    return variants.takeError();
  op.setAttribute("kernel", Attribute::ident(choice.family->name));
  op.setAttribute("tile", choice.tile);
  op.removeAttribute("variants");
  if (!variants->empty())
    op.setAttribute("variants", variantsAttribute(*variants));
  return Error::success();
}

Error TileChooser::checkUse(const Module &module) const {
  for (const auto &[name, settings] : wanted)
    if (!used.count(name))
      return makeError(
          module.loc, "choose-tiles: tiles: expected families or elementwise ops of the module's kernels, got " + name);
  for (const auto &[setting, why] : impossible)
    if (!taken.count(setting))
      return llvm::make_error<DiagnosticError>(why);
  return Error::success();
}

} // namespace

/// The database that option `tuning` names, or null. `own` keeps one of a file. Error: an error of the file's reader,
/// or a database of another target.
static Expected<const TuningDatabase *> tuningOf(StringRef name, const Target &target, SourceManager &sources,
                                                 std::optional<TuningDatabase> &own) {
  if (name == "none")
    return nullptr;
  if (name == "shipped")
    return shippedTuning(target.name);
  Expected<const SourceFile *> file = sources.open(name);
  if (!file)
    return file.takeError();
  Expected<TuningDatabase> database = TuningDatabase::parse(*file);
  if (!database)
    return database.takeError();
  if (database->target != target.name)
    return makeFileError(name, "expected measurements for " + target.name + ", got " + database->target);
  own = std::move(*database);
  return &*own;
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
  std::optional<TuningDatabase> own;
  Expected<const TuningDatabase *> measured = tuningOf(options.getString("tuning"), **target, sources, own);
  if (!measured)
    return measured.takeError();
  TileChooser chooser(**target, options.getDict("tiles"), dimsOfInterest(module, options), *measured);
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
                {"tuning", Attribute::text("shipped"), "what was measured: shipped, none, or a file of kiln tune"}},
    .sets = {"tile", "variants"},
};

} // namespace kiln
