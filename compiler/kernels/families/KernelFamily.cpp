#include "kernels/families/KernelFamily.h"

#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/TokenScores.h"
#include "ops/Region.h"
#include "support/Diagnostic.h"
#include "support/model/LaunchLimits.h"

namespace kiln {

int64_t setting(const Tile &tile, StringRef name) { return tile.find(name)->second.asInt(); }

bool anyTile(const Op &, const Tile &) { return true; }

ArrayRef<const KernelFamily *> allKernelFamilies() {
  static const std::vector<const KernelFamily *> families = {
      &decodeLayersFamily,
      &mmaWarpsFamily,
      &wgmmaRowsFamily,
      &simtRowFamily,
      &mmaRowsFamily,
      &simtRowsFamily,
      &wgmmaScoreFamily,
      &mmaScoreFamily,
      &wgmmaTiledFamily,
      &mmaTiledFamily,
      &mmaTiledSplitFamily,
      &simtTiledFamily,
      &simtBatchedFamily,
      &simtScoresFamily,
      &clusterSplitKvFamily,
      &simtSplitKvFamily,
      &wgmmaFlashFamily,
      &mmaFlashFamily,
      &simtFlashFamily,
      &layerNormFamily,
      &softmaxFamily,
      &scoreRowsFamily,
      &mapFamily,
      &exchangeSlicesFamily,
      &exchangeSharesFamily,
      &exchangeRowsFamily,
      &exchangeFamily,
      &libraryMatmulFamily,
      &libraryBatchedFamily,
      &naiveMatmulFamily,
      &naiveBatchedFamily,
      &streamingLayerNormFamily,
      &naiveFlashFamily,
      &blockReductionFamily,
      &naiveScoresFamily,
      &registerScoresFamily,
      &rowStatisticsFamily,
      &rowReductionFamily,
      &mmaBatchedFamily,
      &mmaFragmentsFamily,
  };
  return families;
}

/// The contractions of an attention; a region with more of them is a whole layer or several.
constexpr size_t attentionContractions = 2;

/// Whether the op is a product with a move behind it that parts the vectors in which kernels have columns.
static bool partsVectors(const Op &op) {
  if (!op.region() || !anchor(op)->is(OpKind::matmul))
    return false;
  return llvm::any_of(op.region()->ops(), [&](const auto &inner) { return !keepsVectorsWhole(*inner, *anchor(op)); });
}

bool KernelFamily::runs(const Op &op, const Target &target, const DimBinding &upper) const {
  return hasScoredProduct(op) == (form == KernelForm::TensorScore) &&
         (contractionsOf(op) > attentionContractions) == (form == KernelForm::DecodeLayers) &&
         (!computesStatistics(op) || rowVectors > 0) && (!sumsParts(op) || inbox) &&
         (form == KernelForm::DecodeLayers || !partsVectors(op)) && accepts(op, target, upper);
}

const KernelFamily *findKernelFamily(StringRef name) {
  for (const KernelFamily *family : allKernelFamilies())
    if (family->name == name)
      return family;
  return nullptr;
}

Expected<const Target *> targetOf(const Module &module) {
  const Attribute *target = findAttribute(module.attributes, ModuleAttribute::target);
  if (!target)
    return makeError(module.loc, "expected the module attribute 'target', the name of a GPU; run select-kernels first");
  return targetNamed(target->asString(), module);
}

Expected<const Target *> targetNamed(StringRef name, const Module &module) {
  Expected<const Target *> found = findTarget(name);
  if (!found)
    return makeError(module.loc, takeDiagnostics(found.takeError()).front().message);
  return module.boolAttribute(ModuleAttribute::portable) ? &portable(**found) : *found;
}

Expected<const KernelFamily *> checkFamily(const Op &op, const Attribute *kernel, const Target &target,
                                           const DimBinding &upper) {
  if (!kernel)
    return opError(op, "expected the attribute 'kernel'; run select-kernels first");
  const KernelFamily *family =
      kernel->kind() == Attribute::Kind::Ident ? findKernelFamily(kernel->asString()) : nullptr;
  if (!family || !family->runs(op, target, upper))
    return opError(op, "attribute 'kernel': expected one that runs this, got " + kernel->str());
  return family;
}

/// The maximum of a setting: far above any useful value, and a product of three does not overflow. With it, isSound
/// computes; the others compute with what it accepts.
constexpr int64_t maxSetting = 1 << 20;

Error checkTile(const Op &op, const KernelFamily &family, const Attribute *tile, const Target &target,
                const DimBinding &upper) {
  if (!tile || tile->kind() != Attribute::Kind::Dict)
    return opError(op, "expected the attribute 'tile'; run choose-tiles first");
  return checkTile(op, family, tile, target, upper, family.configurations(op, target, upper).front());
}

/// The first direction of a grid in which launches cannot have as many blocks as the bounds of the dims ask for.
static std::optional<size_t> exceededDirection(const Launch &launch, const DimBinding &upper) {
  for (size_t i = 0; i < launch.grid.size(); ++i)
    if (valueAt(launch.grid[i], upper) > mostGridBlocks[i])
      return i;
  return std::nullopt;
}

bool hasGrid(const Op &op, const KernelFamily &family, const Tile &tile) {
  return !exceededDirection(family.launch(op, tile), upperBounds(op));
}

/// Checks that a launch can have the grid, whatever the dims are.
static Error checkGrid(const Op &op, const Launch &launch, const Attribute &tile) {
  const DimBinding upper = upperBounds(op);
  const std::optional<size_t> exceeded = exceededDirection(launch, upper);
  if (!exceeded)
    return Error::success();
  std::string at;
  for (const auto &[dim, bound] : upper)
    at += (at.empty() ? " with " : ", ") + dim + " = " + std::to_string(bound);
  const Expr &blocks = launch.grid[*exceeded];
  return opError(op, "expected a grid of at most " + Twine(mostGridBlocks[*exceeded]) + " blocks in " +
                         Twine("xyz"[*exceeded]) + ", got " + Twine(valueAt(blocks, upper)) + at + ", by " +
                         blocks.str() + ", with " + tile.str());
}

Error checkTile(const Op &op, const KernelFamily &family, const Attribute *tile, const Target &target,
                const DimBinding &upper, const Tile &example) {
  bool fits = tile->asDict().size() == example.size();
  for (const auto &[name, value] : example) {
    auto it = tile->asDict().find(name);
    fits = fits && it != tile->asDict().end() && it->second.kind() == value.kind() &&
           (value.kind() != Attribute::Kind::Int || (it->second.asInt() > 0 && it->second.asInt() <= maxSetting));
  }
  if (!fits)
    return opError(op, "attribute 'tile': expected settings of " + family.name + ", like " + Attribute(example).str() +
                           ", got " + tile->str());
  if (family.form == KernelForm::Library)
    return Error::success();
  if (!family.isSound(op, tile->asDict()))
    return opError(op, "attribute 'tile': expected settings that the template " + family.header + " takes, like " +
                           Attribute(example).str() + ", got " + tile->str());
  const int64_t rows = valueAt(rowsOf(op), upper);
  if (family.mostRows && family.mostRows(op, tile->asDict()) < rows)
    return opError(op, "attribute 'tile': expected settings for " + Twine(rows) + " rows, got " + tile->str());
  Launch launch = family.launch(op, tile->asDict());
  if (launch.threads < 1 || launch.threads > mostBlockThreads)
    return opError(op, "attribute 'tile': expected 1 to " + Twine(mostBlockThreads) + " threads a block, got " +
                           Twine(launch.threads) + " with " + tile->str());
  if (launch.staticShared > maxStaticShared)
    return opError(op, "attribute 'tile': expected at most " + Twine(maxStaticShared) +
                           " bytes of shared memory that a kernel declares, got " + Twine(launch.staticShared) +
                           " with " + tile->str());
  if (launch.dynamicShared > target.sharedPerBlock)
    return opError(op, "attribute 'tile': expected at most " + Twine(target.sharedPerBlock) +
                           " bytes of shared memory a block, got " + Twine(launch.dynamicShared) + " with " +
                           tile->str());
  return checkGrid(op, launch, *tile);
}

/// Checks the variants, each {rows, kernel, tile}, with tokens or without, as variantsOf reads it.
static Error checkVariants(const Op &op, const Target &target) {
  const Attribute *variants = op.attribute("variants");
  if (!variants)
    return Error::success();
  for (const Attribute &variant : variants->asList()) {
    bool isDict = variant.kind() == Attribute::Kind::Dict;
    const Attribute *rows = isDict ? findAttribute(variant.asDict(), "rows") : nullptr;
    const Attribute *kernel = isDict ? findAttribute(variant.asDict(), "kernel") : nullptr;
    const Attribute *tokens = isDict ? findAttribute(variant.asDict(), "tokens") : nullptr;
    bool hasTokens = tokens && tokens->kind() == Attribute::Kind::Int && tokens->asInt() > 0 &&
                     (tokensOfRows(op) || attendsToCache(op));
    if (!rows || rows->kind() != Attribute::Kind::Int || !kernel || (tokens && !hasTokens))
      return opError(op,
                     "attribute 'variants': expected {rows = N, kernel = NAME, tile = {…}}, with tokens = N for rows "
                     "of prompts and attention over a cache, got " +
                         variant.str());
    DimBinding upper = boundsForRows(op, rows->asInt(), tokens ? tokens->asInt() : 0);
    Expected<const KernelFamily *> family = checkFamily(op, kernel, target, upper);
    if (!family)
      return family.takeError();
    if (Error error = checkTile(op, **family, findAttribute(variant.asDict(), "tile"), target, upper))
      return error;
  }
  return Error::success();
}

/// What an op computes in which function, and the kernels that it was given.
static std::string kernelsOf(const Op &op) {
  std::string text = op.parent()->function()->name + " " + structureOf(op);
  for (StringRef name : {"kernel", "tile", "variants"})
    if (const Attribute *attribute = op.attribute(name))
      text += (" " + name + "=").str() + attribute->str();
  return text;
}

Error checkChoices(const Op &op, const Target &target, std::set<std::string> &checked) {
  auto [known, isNew] = checked.insert(kernelsOf(op));
  if (!isNew)
    return Error::success();
  Expected<const KernelFamily *> family = checkFamily(op, op.attribute("kernel"), target, boundsToChooseFor(op));
  if (!family)
    return family.takeError();
  if (Error error = checkTile(op, **family, op.attribute("tile"), target, boundsToChooseFor(op)))
    return error;
  return checkVariants(op, target);
}

const KernelFamily *preferredFamily(const Op &op) {
  const AttributeMap &attributes = op.parent()->function()->module().attributes;
  const Attribute *kernels = findAttribute(attributes, ModuleAttribute::kernels);
  if (!kernels)
    return nullptr;
  const Attribute *name = findAttribute(kernels->asDict(), anchor(op)->mnemonic(), Attribute::Kind::Ident);
  return name ? findKernelFamily(name->asString()) : nullptr;
}

const KernelFamily *selectFamily(const Op &op, const Target &target, const DimBinding &upper) {
  if (const KernelFamily *preferred = preferredFamily(op); preferred && preferred->runs(op, target, upper))
    return preferred;
  for (const KernelFamily *family : allKernelFamilies())
    if (!family->byRequestOnly && family->runs(op, target, upper))
      return family;
  return nullptr;
}

KernelChoice choiceOf(const Op &op) {
  return {findKernelFamily(op.identAttribute("kernel")), op.attribute("tile")->asDict()};
}

std::string orderOfSums(const Op &op, const KernelChoice &choice) {
  if (choice.family->order)
    return Attribute(choice.family->order(op, choice.tile)).str();
  return (choice.family->name + " " + Attribute(choice.tile).str()).str();
}

bool hasFixedForm(const Op &op, const KernelFamily &family) {
  return family.form == KernelForm::SplitKv || (isProductOfFewTokens(op) && family.form == KernelForm::TensorMatmul);
}

std::vector<KernelVariant> variantsOf(const Op &op) {
  std::vector<KernelVariant> variants;
  if (const Attribute *list = op.attribute("variants"))
    for (const Attribute &item : list->asList()) {
      const AttributeMap &entry = item.asDict();
      auto tokens = entry.find("tokens");
      variants.push_back(
          {entry.find("rows")->second.asInt(),
           tokens == entry.end() ? 0 : tokens->second.asInt(),
           {findKernelFamily(entry.find("kernel")->second.asString()), entry.find("tile")->second.asDict()}});
    }
  return variants;
}

KernelChoice choiceFor(const Op &op, int64_t rows, int64_t tokens) {
  for (const KernelVariant &variant : variantsOf(op))
    if (variant.takes(rows, tokens))
      return variant.choice;
  return choiceOf(op);
}

/// The bytes of each row, if scratch has the same number for all of them.
static std::optional<int64_t> bytesPerRow(const Op &op, const Expr &bytes) {
  const DimBinding one = boundsForRows(op, 1), all = upperBounds(op);
  const Expr rows = rowsOf(op);
  int64_t perRow = valueAt(bytes, one) / valueAt(rows, one);
  bool isSame = llvm::all_of(std::array{one, all}, [&](const DimBinding &dims) {
    return perRow * valueAt(rows, dims) == valueAt(bytes, dims);
  });
  return isSame ? std::optional(perRow) : std::nullopt;
}

std::optional<Expr> workspaceBytes(const Op &op) {
  SmallVector<Expr, 4> needs;
  int64_t perRow = 0; // of kernels with so many bytes a row; they need one formula together
  auto take = [&](const KernelChoice &choice, const KernelVariant *variant) {
    if (!choice.family->workspace)
      return;
    Expr bytes = choice.family->workspace(op, choice.tile);
    if (std::optional<int64_t> own = bytesPerRow(op, bytes))
      perRow = std::max(perRow, *own);
    else // a variant is never launched with more rows than its own
      needs.push_back(variant ? Expr(valueAt(bytes, boundsForRows(op, variant->rows, variant->tokens))) : bytes);
  };
  take(choiceOf(op), nullptr);
  for (const KernelVariant &variant : variantsOf(op))
    take(variant.choice, &variant);
  if (perRow > 0)
    needs.push_back(Expr(perRow) * rowsOf(op));
  std::optional<Expr> most;
  for (const Expr &bytes : needs)
    most = most ? max(*most, bytes) : bytes;
  return most;
}

Attribute variantsAttribute(ArrayRef<KernelVariant> variants) {
  Attribute::List list;
  for (const KernelVariant &variant : variants) {
    AttributeMap entry = {{"rows", variant.rows},
                          {"kernel", Attribute::ident(variant.choice.family->name)},
                          {"tile", variant.choice.tile}};
    if (variant.tokens > 0)
      entry.insert({"tokens", variant.tokens});
    list.push_back(std::move(entry));
  }
  return list;
}

} // namespace kiln
