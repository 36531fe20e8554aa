//===- TileChooser.h - the configuration of every kernel of a module ----------------===//
#pragma once

#include "kernels/families/KernelFamily.h"
#include "kernels/tuning/Tuning.h"
#include "support/Diagnostic.h"

namespace kiln {

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
  Expected<Tile> compareTiles(const Op &op, const KernelFamily &family, const DimBinding &upper,
                              const DimBinding &dims);
  bool hasFixedOrder(const Op &op, const KernelFamily &family, const Tile &tile) const;
  bool runsInOrder(const Op &op, const KernelFamily &family, const DimBinding &dims) const;
  Expected<const KernelFamily *> cheapestFamily(const Op &op, const KernelFamily &first, const DimBinding &dims);
  Expected<const KernelFamily *> familyFor(const Op &op, const DimBinding &upper);
  std::optional<KernelChoice> measuredChoice(const Op &op, const DimBinding &dims, const KernelFamily &family) const;
  Expected<KernelChoice> chooseForRows(const Op &op, const DimBinding &dims);
  Expected<std::vector<KernelVariant>> chooseVariants(const Op &op, ArrayRef<int64_t> rows,
                                                      const KernelChoice &atBound);

  const Target &target;
  const AttributeMap &wanted; ///< settings by family or elementwise op
  DimBinding interest;
  const TuningDatabase *measured;
  std::set<std::string> used; ///< names of `wanted`
  /// The results of cheapestTile for products in tensor cores, by problem, upper bounds and dims.
  std::map<std::tuple<const KernelFamily *, std::string, DimBinding, DimBinding>, Tile> cheapest;
  // Settings of map.
  std::set<std::string> taken;                               ///< by some op
  std::map<std::string, std::vector<Diagnostic>> impossible; ///< for some op: why
};

} // namespace kiln
