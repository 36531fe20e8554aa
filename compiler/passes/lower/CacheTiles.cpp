// The kernels of attention over a cache by the tokens in it: what is the fastest for few is up to 8 % slower for many,
// and the other way round. All give a row the same bits.
#include "kernels/cost/Problem.h"
#include "passes/lower/TileChooser.h"

namespace kiln {

/// Puts kernels for few tokens in the cache, where they were measured, in front of the variants for any number. They
/// are for each of `rows` and the most of the op; those that were not measured are the ones for any number.
std::vector<KernelVariant> TileChooser::withCacheBounds(const Op &op, const KernelFamily &family,
                                                        ArrayRef<int64_t> rows, const KernelChoice &atBound,
                                                        std::vector<KernelVariant> variants) const {
  const int64_t mostRows = valueAt(rowsOf(op), upperBounds(op));
  variants.push_back({mostRows, 0, atBound});
  std::vector<KernelVariant> all;
  for (int64_t tokens : measured.tokenBounds(problemName(op))) {
    auto add = [&](int64_t few) {
      auto general = llvm::find_if(variants, [&](const KernelVariant &variant) { return variant.takes(few, tokens); });
      std::optional<KernelChoice> own = measuredChoice(op, boundsForRows(op, few), family, tokens);
      all.push_back({few, tokens, own.value_or(general->choice)});
    };
    for (int64_t few : rows)
      if (few < mostRows)
        add(few);
    add(mostRows);
  }
  all.insert(all.end(), variants.begin(), variants.end());
  dropNeedless(all);
  all.pop_back();
  return all;
}

} // namespace kiln
