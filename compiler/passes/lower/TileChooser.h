//===- TileChooser.h - the configuration of every kernel of a module ----------------===//
#pragma once

#include "kernels/families/KernelFamily.h"
#include "kernels/tuning/Tuning.h"
#include "passes/lower/ChoiceBounds.h"
#include "support/Diagnostic.h"

namespace kiln {

/// The numbers of prompts that decide about the order of their sums, whatever the bound of a plan: plans for one
/// sequence and for many have the same. A prompt alone counts twice, since somebody waits for it.
constexpr std::array<int64_t, 4> typicalSequences = {1, 1, 8, 64};

/// Leaves out variants whose calls come to the same kernel without them. The last one takes every call.
void dropNeedless(std::vector<KernelVariant> &variants);

/// Chooses for the ops of one module.
class TileChooser {
public:
  /// `batchInvariant`: as ModuleAttribute::batchInvariant says.
  TileChooser(const Target &target, const AttributeMap &wanted, DimBinding interest, const TuningDatabase &measured,
              int64_t batchInvariant)
      : target(target), wanted(wanted), interest(std::move(interest)), measured(measured),
        batchInvariant(batchInvariant) {}

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
  Expected<Tile> compareTiles(const Op &op, const KernelFamily &family, const DimBinding &upper,
                              const DimBinding &dims);
  std::optional<AttributeMap> fixedOrder(const Op &op, const KernelFamily &family) const;
  std::vector<Tile> tilesInOrder(const Op &op, const KernelFamily &family, const DimBinding &upper) const;
  bool runsInOrder(const Op &op, const KernelFamily &family, const DimBinding &dims) const;
  Expected<const KernelFamily *> cheapestFamily(const Op &op, const KernelFamily &first, const DimBinding &dims);
  Expected<const KernelFamily *> compareFamilies(const Op &op, const KernelFamily &first, const DimBinding &dims);
  /// The first family that runs the op with dims up to these and has a tile with a grid for it. Error: none runs it.
  Expected<const KernelFamily *> firstFamily(const Op &op, const DimBinding &upper) const;
  Expected<const KernelFamily *> familyFor(const Op &op, const DimBinding &upper);
  std::optional<KernelChoice> measuredChoice(const Op &op, const DimBinding &dims, const KernelFamily &family,
                                             int64_t tokens = 0) const;
  Expected<KernelChoice> chooseForRows(const Op &op, const DimBinding &dims);
  Expected<std::vector<KernelVariant>> chooseVariants(const Op &op, ArrayRef<int64_t> rows,
                                                      const KernelChoice &atBound);

  // Of attention over a cache (CacheTiles.cpp).
  std::vector<KernelVariant> withCacheBounds(const Op &op, const KernelFamily &family, ArrayRef<int64_t> rows,
                                             const KernelChoice &atBound, std::vector<KernelVariant> variants) const;

  // Of prompts whose bits do not depend on their number (PromptTiles.cpp).
  struct PromptCandidate;
  struct PromptRows;
  Expected<std::vector<PromptCandidate>> promptCandidates(const Op &op, const PromptRows &at);
  Expected<std::vector<PromptRows>> rowsOfClass(const Op &op, int64_t tokens);
  Expected<std::string> orderOfClass(const Op &op, int64_t tokens, ArrayRef<PromptRows> all);
  KernelChoice chooseOfOrder(const Op &op, const PromptRows &at, StringRef order, ArrayRef<KernelVariant> chosen) const;
  Expected<std::vector<KernelVariant>> choosePrompts(const Op &op);
  Error chooseForPrompts(Op &op, const KernelFamily &family);

  const Target &target;
  const AttributeMap &wanted; ///< settings by family or elementwise op
  DimBinding interest;
  const TuningDatabase &measured;
  int64_t batchInvariant;
  std::set<std::string> used; ///< names of `wanted`
  /// The results of cheapestTile for products in tensor cores, by structure, upper bounds and dims.
  std::map<std::tuple<const KernelFamily *, std::string, DimBinding, DimBinding>, Tile> cheapest;
  /// The results of cheapestFamily, by first family, structure, dims, and whether the op is of @verify.
  std::map<std::tuple<const KernelFamily *, std::string, DimBinding, bool>, const KernelFamily *> families;
  /// The results of choosePrompts, by family and structure.
  std::map<std::pair<const KernelFamily *, std::string>, std::vector<KernelVariant>> prompts;
  // Settings of map.
  std::set<std::string> taken;                               ///< by some op
  std::map<std::string, std::vector<Diagnostic>> impossible; ///< for some op: why
};

} // namespace kiln
