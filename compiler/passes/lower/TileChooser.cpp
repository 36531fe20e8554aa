#include "passes/lower/TileChooser.h"

#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/DepthCut.h"
#include "ops/Region.h"
#include "support/model/LaunchLimits.h"

namespace kiln {

/// The order of sums that is fixed for the op in kernels of a family, if one is.
std::optional<AttributeMap> TileChooser::fixedOrder(const Op &op, const KernelFamily &family) const {
  bool isFree = batchInvariant == 1 && !isVerified(op);
  if (isFree || !isProductOfFewTokens(op) || family.form != KernelForm::TensorMatmul)
    return std::nullopt;
  return cutOfFewTokens(op, target).order();
}

/// Whether configurations may have more blocks than a grid in y or z: of heads and sequences they may have as many, of
/// rows 4 or more are one block's. Grids take time to compute.
static bool canExceedGrid(const Op &op) {
  const Type &type = anchor(op)->result()->type;
  return valueAt(rowCount(type), upperBounds(op)) > mostGridBlocks[1] * (type.rank() == 4 ? 1 : 4);
}

/// The family's configurations that launches can have a grid for, and that have the op's order of sums, if one is
/// fixed.
std::vector<Tile> TileChooser::tilesInOrder(const Op &op, const KernelFamily &family, const DimBinding &upper) const {
  std::vector<Tile> tiles = family.configurations(op, target, upper);
  if (canExceedGrid(op))
    llvm::erase_if(tiles, [&](const Tile &tile) { return !hasGrid(op, family, tile); });
  if (std::optional<AttributeMap> order = fixedOrder(op, family))
    llvm::erase_if(tiles, [&](const Tile &tile) { return !family.order || family.order(op, tile) != *order; });
  return tiles;
}

/// Whether a family adds up rows by threads that its tile decides about.
static bool addsUpRows(const KernelFamily &family) {
  return family.form == KernelForm::LayerNorm || family.form == KernelForm::RowStatistics;
}

/// The dims to choose for: those of interest, but the bounds if @decode and @verify must agree, and the bound of B for
/// ops whose few rows have variants, and for all ops over prompts, which take the most time there; but a fixed number
/// of prompts where sums of rows depend on the choice.
static DimBinding dimsToChooseFor(const Op &op, const KernelFamily &family, bool hasVariants, DimBinding dims) {
  if (isVerified(op))
    return boundsToChooseFor(op);
  const Type &type = anchor(op)->result()->type;
  bool isPrompts = type.rank() > 2 && type.shape[1].getSymbol();
  if (const DimSymbol *batch = type.rank() > 0 ? type.shape[0].getSymbol() : nullptr;
      batch && (hasVariants || isPrompts))
    dims[batch->name] = isPrompts && addsUpRows(family) ? typicalSequences.back() : batch->max;
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
  std::vector<Tile> tiles = tilesInOrder(op, family, upper), chosen;
  if (tiles.empty()) {
    tiles = family.configurations(op, target, upper);
    assert(!tiles.empty() && "a family has a configuration for every op that it accepts");
    const Attribute first = tiles.front();
    llvm::erase_if(tiles, [&](const Tile &tile) { return !hasGrid(op, family, tile); });
    if (tiles.empty())
      return checkTile(op, family, &first, target, upper, first.asDict());
  }
  llvm::copy_if(tiles, std::back_inserter(chosen), [&](const Tile &tile) { return hasSettings(tile, settings); });
  if (!chosen.empty())
    return chosen;
  Error unsound = Error::success();
  const Tile example = tiles.front();
  for (Tile &tile : tiles) {
    for (const auto &[name, value] : settings)
      tile.insert_or_assign(name, value);
    Attribute attribute = tile;
    llvm::consumeError(std::move(unsound));
    unsound = checkTile(op, family, &attribute, target, upper, example);
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

/// Products of prompts have many configurations; those of all layers are compared once.
Expected<Tile> TileChooser::cheapestTile(const Op &op, const KernelFamily &family, const DimBinding &upper,
                                         const DimBinding &dims) {
  if (!isTensorProduct(family))
    return compareTiles(op, family, upper, dims);
  auto [known, isNew] = cheapest.try_emplace({&family, structureOf(op), upper, dims});
  if (isNew) {
    Expected<Tile> tile = compareTiles(op, family, upper, dims);
    if (!tile) {
      cheapest.erase(known);
      return tile;
    }
    known->second = std::move(*tile);
  }
  return known->second;
}

Expected<Tile> TileChooser::compareTiles(const Op &op, const KernelFamily &family, const DimBinding &upper,
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

/// The measured optimum for dims up to these and a bound of tokens, or any number of them if it is 0; unless the module
/// prefers a kernel or its settings. A measurement that no longer fits its template is ignored, and so is one whose
/// order of sums differs from the family's where that is fixed.
std::optional<KernelChoice> TileChooser::measuredChoice(const Op &op, const DimBinding &dims,
                                                        const KernelFamily &family, int64_t tokens) const {
  if (preferredFamily(op) || (isVerified(op) && !hasFixedForm(op, family)))
    return std::nullopt;
  const TunedChoice *found = measured.find(problemName(op), valueAt(rowsOf(op), dims), tokens);
  if (!found)
    return std::nullopt;
  const KernelFamily &foundFamily = *found->choice.family;
  if (wanted.count(foundFamily.name) || wanted.count(nameOfElementwise(op, foundFamily)) ||
      !foundFamily.runs(op, target, dims))
    return std::nullopt;
  if (hasFixedForm(op, family) && foundFamily.form != family.form)
    return std::nullopt;
  if (std::optional<AttributeMap> order = hasFixedForm(op, family) ? fixedOrder(op, foundFamily) : std::nullopt)
    if (!foundFamily.order || foundFamily.order(op, found->choice.tile) != *order)
      return std::nullopt;
  if (family.form == KernelForm::SplitKv &&
      !llvm::is_contained(foundFamily.configurations(op, target, dims), found->choice.tile))
    return std::nullopt;
  Attribute tile = found->choice.tile;
  if (Error unsound = checkTile(op, foundFamily, &tile, target, dims)) {
    llvm::consumeError(std::move(unsound));
    return std::nullopt;
  }
  return found->choice;
}

/// Whether the family runs the op in the order of sums that is fixed for it, if one is.
bool TileChooser::runsInOrder(const Op &op, const KernelFamily &family, const DimBinding &dims) const {
  return family.runs(op, target, dims) && !tilesInOrder(op, family, dims).empty();
}

/// The cheapest family at these dims of those that take operands of tensor cores from memory, and `first`; of those
/// that have the op's order of sums, if any has. Those of all layers are compared once.
Expected<const KernelFamily *> TileChooser::cheapestFamily(const Op &op, const KernelFamily &first,
                                                           const DimBinding &dims) {
  auto [known, isNew] = families.try_emplace({&first, structureOf(op), dims, isVerified(op)});
  if (!isNew)
    return known->second;
  Expected<const KernelFamily *> family = compareFamilies(op, first, dims);
  if (family)
    known->second = *family;
  else
    families.erase(known);
  return family;
}

Expected<const KernelFamily *> TileChooser::compareFamilies(const Op &op, const KernelFamily &first,
                                                            const DimBinding &dims) {
  const KernelFamily *best = nullptr;
  double least = 0;
  auto compare = [&](const KernelFamily &family) -> Error {
    Expected<Tile> tile = cheapestTile(op, family, dims, dims);
    if (!tile)
      return tile.takeError();
    double seconds = family.estimate(op, *tile, target, dims);
    if (!best || seconds < least) {
      best = &family;
      least = seconds;
    }
    return Error::success();
  };
  if (runsInOrder(op, first, dims))
    if (Error error = compare(first))
      return error;
  for (const KernelFamily *family : allKernelFamilies()) {
    // Of few tokens per sequence, those that stream the weight.
    bool streams = !isProductOfFewTokens(op) || family->maps || family == &mmaWarpsFamily;
    bool isCandidate = family != &first && isTensorProduct(*family) && !family->byRequestOnly && streams;
    if (isCandidate && runsInOrder(op, *family, dims))
      if (Error error = compare(*family))
        return error;
  }
  return best ? best : &first;
}

Expected<const KernelFamily *> TileChooser::firstFamily(const Op &op, const DimBinding &upper) const {
  const KernelFamily *first = selectFamily(op, target, upper);
  if (!first)
    return opError(op, "no kernel of " + target.name + " runs this with up to " + Twine(valueAt(rowsOf(op), upper)) +
                           " rows");
  auto hasTile = [&](const KernelFamily &family) {
    return llvm::any_of(family.configurations(op, target, upper),
                        [&](const Tile &tile) { return hasGrid(op, family, tile); });
  };
  if (first == preferredFamily(op) || !canExceedGrid(op) || hasTile(*first))
    return first;
  for (const KernelFamily *family : allKernelFamilies())
    if (!family->byRequestOnly && family->runs(op, target, upper) && hasTile(*family))
      return family;
  return first; // its tiles say what there is too much of
}

/// The family that runs an op with dims up to these. Few rows may run faster with another family than many. With few
/// tokens per sequence, the first family that accepts the op is used; but if that is one for tensor cores, the best of
/// those with the op's order of sums. For prompts their models are compared, unless the module prefers one.
Expected<const KernelFamily *> TileChooser::familyFor(const Op &op, const DimBinding &upper) {
  Expected<const KernelFamily *> first = firstFamily(op, upper);
  if (!first)
    return first;
  const Type &type = anchor(op)->result()->type;
  bool isPrompts = type.rank() == 3 && type.shape[1].getSymbol();
  bool hasOrder = isProductOfFewTokens(op) && (*first)->form == KernelForm::TensorMatmul;
  if (*first == preferredFamily(op) || !(isPrompts || hasOrder))
    return first;
  return cheapestFamily(op, **first, upper);
}

Expected<KernelChoice> TileChooser::chooseForRows(const Op &op, const DimBinding &dims) {
  Expected<const KernelFamily *> family = familyFor(op, dims);
  if (!family)
    return family.takeError();
  for (int64_t tokens : {choiceBoundOf(op, **family, valueAt(rowsOf(op), dims)).tokens, int64_t(0)})
    if (std::optional<KernelChoice> best = measuredChoice(op, dims, **family, tokens))
      return *best;
  Expected<Tile> tile = cheapestTile(op, **family, dims, dims);
  if (!tile)
    return tile.takeError();
  return KernelChoice{*family, std::move(*tile)};
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
      variants.push_back({most, 0, std::move(*choice)});
  }
  if (!variants.empty() && variants.back().choice == atBound)
    variants.pop_back();
  return variants;
}

static void setChoice(Op &op, const KernelChoice &choice, ArrayRef<KernelVariant> variants) {
  op.setAttribute("kernel", Attribute::ident(choice.family->name));
  op.setAttribute("tile", choice.tile);
  op.removeAttribute("variants");
  if (!variants.empty())
    op.setAttribute("variants", variantsAttribute(variants));
}

Error TileChooser::choose(Op &op) {
  Expected<const KernelFamily *> family = checkFamily(op, op.attribute("kernel"), target, boundsToChooseFor(op));
  if (!family)
    return family.takeError();
  if (hasPromptClasses(op, **family, batchInvariant))
    return chooseForPrompts(op, **family);
  SmallVector<int64_t, 3> rows = variantRows(op, **family);
  const DimBinding upper = boundsToChooseFor(op);
  if (isProductOfFewTokens(op) && hasFixedForm(op, **family))
    family = familyFor(op, upper);
  if (!family)
    return family.takeError();
  Expected<Tile> tile = cheapestTile(op, **family, upper, dimsToChooseFor(op, **family, !rows.empty(), interest));
  if (!tile)
    return tile.takeError();
  KernelChoice choice{*family, std::move(*tile)};
  if ((*family)->form != KernelForm::Library)
    choice = measuredChoice(op, upper, **family).value_or(choice);
  Expected<std::vector<KernelVariant>> variants = chooseVariants(op, rows, choice);
  if (!variants)
    return variants.takeError();
  if ((*family)->form == KernelForm::SplitKv && attendsToCache(op))
    variants = withCacheBounds(op, **family, rows, choice, std::move(*variants));
  setChoice(op, choice, *variants);
  return Error::success();
}

/// The choice is that of all layers that are alike.
Error TileChooser::chooseForPrompts(Op &op, const KernelFamily &family) {
  auto known = prompts.find({&family, structureOf(op)});
  if (known == prompts.end()) {
    Expected<std::vector<KernelVariant>> chosen = choosePrompts(op);
    if (!chosen)
      return chosen.takeError();
    known = prompts.try_emplace({&family, structureOf(op)}, std::move(*chosen)).first;
  }
  setChoice(op, known->second.back().choice, ArrayRef(known->second).drop_back());
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

} // namespace kiln
