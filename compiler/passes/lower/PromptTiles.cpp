// The kernels of an op over prompts whose bits must not depend on how many prompts are evaluated together.
//
// Prompts fall into classes by their length. All kernels of a class add up in one order, the one that slows the class
// least; among those of this order, each number of rows has the fastest. So a plan has several kernels for an op, and a
// prompt has the same bits alone and in company of its class.
#include "kernels/cost/Problem.h"
#include "passes/lower/TileChooser.h"

namespace kiln {

/// A kernel that is slower by up to this factor is used again rather than one more kernel made.
constexpr double worthAnother = 1.02;

/// A kernel for some number of rows.
struct TileChooser::PromptCandidate {
  KernelChoice choice;
  std::string order;
  double seconds;
};

/// A number of rows to choose for, with all kernels for it.
struct TileChooser::PromptRows {
  int64_t rows, tokens; ///< the most of a call; tokens: 0 in the last class
  DimBinding upper, dims;
  std::vector<PromptCandidate> candidates = {};
};

/// An op has the first family that runs it to choose from, and a product all those in tensor cores; unless the module
/// prefers one.
Expected<std::vector<TileChooser::PromptCandidate>> TileChooser::promptCandidates(const Op &op, const PromptRows &at) {
  Expected<const KernelFamily *> first = firstFamily(op, at.upper);
  if (!first)
    return first.takeError();
  std::vector<const KernelFamily *> families = {*first};
  if (*first != preferredFamily(op))
    for (const KernelFamily *family : allKernelFamilies())
      if (family != *first && isTensorProduct(*family) && !family->byRequestOnly && runsInOrder(op, *family, at.upper))
        families.push_back(family);
  std::vector<PromptCandidate> all;
  for (const KernelFamily *family : families) {
    Expected<std::vector<Tile>> tiles = candidates(op, *family, at.upper);
    if (!tiles)
      return tiles.takeError();
    for (Tile &tile : *tiles) {
      double seconds = family->estimate(op, tile, target, at.dims);
      KernelChoice choice{family, std::move(tile)};
      std::string order = orderOfSums(op, choice);
      all.push_back({std::move(choice), std::move(order), seconds});
    }
  }
  return all;
}

/// The numbers of rows of prompts of up to `tokens` tokens, the fewest first.
Expected<std::vector<TileChooser::PromptRows>> TileChooser::rowsOfClass(const Op &op, int64_t tokens) {
  const DimSymbol *length = tokensOfRows(op);
  std::vector<PromptRows> all;
  for (ChoiceBound bound : boundsOfPromptClass(op, tokens)) {
    DimBinding upper = boundsForRows(op, bound.rows, tokens);
    all.push_back({bound.rows, bound.tokens, upper, upper});
  }
  if (tokens == length->max)
    all.back().dims[length->name] = interest.find(length->name)->second;
  for (PromptRows &at : all) {
    Expected<std::vector<PromptCandidate>> candidates = promptCandidates(op, at);
    if (!candidates)
      return candidates.takeError();
    at.candidates = std::move(*candidates);
  }
  return all;
}

/// The seconds of the fastest kernel of each order.
using SecondsByOrder = std::map<std::string, double>;

/// How much longer the fastest kernel of an order takes than that of any; infinite if there is none.
static double slowdown(const SecondsByOrder &seconds, const std::string &order) {
  auto own = seconds.find(order);
  if (own == seconds.end())
    return INFINITY;
  double fastest = own->second;
  for (const auto &[other, time] : seconds)
    fastest = std::min(fastest, time);
  return own->second / fastest;
}

/// The order of sums for prompts of up to `tokens` tokens, which all these numbers of rows have: that of what was
/// measured of one such prompt, with this bound in its entry; else the one that slows typical numbers of sequences
/// least together. Empty: there is none.
Expected<std::string> TileChooser::orderOfClass(const Op &op, int64_t tokens, ArrayRef<PromptRows> all) {
  auto isOfAll = [&](const std::string &order) {
    return llvm::all_of(all, [&](const PromptRows &at) {
      return llvm::any_of(at.candidates, [&](const PromptCandidate &candidate) { return candidate.order == order; });
    });
  };
  const auto *one = llvm::find_if(all, [&](const PromptRows &at) { return at.tokens != 0 && at.rows == tokens; });
  if (one != all.end())
    if (std::optional<KernelChoice> found =
            measuredChoice(op, one->dims, *one->candidates.front().choice.family, one->tokens))
      if (std::string order = orderOfSums(op, *found); isOfAll(order))
        return order;
  std::vector<SecondsByOrder> secondsOfTypical;
  for (int64_t sequences : typicalSequences) {
    DimBinding dims = boundsForRows(op, INT64_MAX, tokens);
    if (const DimSymbol *batch = op.parent()->function()->module().batchDim())
      dims[batch->name] = sequences;
    auto candidates = promptCandidates(op, {valueAt(rowsOf(op), dims), tokens, dims, dims});
    if (!candidates)
      return candidates.takeError();
    SecondsByOrder &seconds = secondsOfTypical.emplace_back();
    for (const PromptCandidate &candidate : *candidates) {
      double &least = seconds.try_emplace(candidate.order, INFINITY).first->second;
      least = std::min(least, candidate.seconds);
    }
  }
  std::string best;
  double least = INFINITY;
  for (const auto &[order, seconds] : secondsOfTypical.front()) {
    double sum = 0;
    for (const SecondsByOrder &typical : secondsOfTypical)
      sum += slowdown(typical, order);
    if (sum < least && isOfAll(order)) {
      least = sum;
      best = order;
    }
  }
  return best;
}

/// The kernel of this order, or of any if it is empty, for a number of rows: what was measured, or else the fastest by
/// the models; but one of those chosen for other rows if it is about as fast.
KernelChoice TileChooser::chooseOfOrder(const Op &op, const PromptRows &at, StringRef order,
                                        ArrayRef<KernelVariant> chosen) const {
  const PromptCandidate *best = nullptr, *known = nullptr;
  for (const PromptCandidate &candidate : at.candidates) {
    if (!order.empty() && candidate.order != order)
      continue;
    if (!best || candidate.seconds < best->seconds)
      best = &candidate;
    bool isKnown =
        llvm::any_of(chosen, [&](const KernelVariant &variant) { return variant.choice == candidate.choice; });
    if (isKnown && (!known || candidate.seconds < known->seconds))
      known = &candidate;
  }
  for (int64_t tokens : {at.tokens, int64_t(0)})
    if (std::optional<KernelChoice> found = measuredChoice(op, at.dims, *best->choice.family, tokens);
        found && (order.empty() || orderOfSums(op, *found) == order))
      return *found;
  return known && known->seconds <= worthAnother * best->seconds ? known->choice : best->choice;
}

void dropNeedless(std::vector<KernelVariant> &variants) {
  for (size_t i = variants.size() - 1; i-- > 0;) {
    const KernelVariant &variant = variants[i];
    bool isFirst = i == 0 || variants[i - 1].tokens != variant.tokens;
    int64_t covered = isFirst ? 0 : variants[i - 1].rows;
    bool isNeedless = true;
    for (size_t next = i + 1; next < variants.size() && covered < variant.rows; ++next)
      if (variants[next].rows > covered) {
        isNeedless = isNeedless && variants[next].choice == variant.choice;
        covered = variants[next].rows;
      }
    if (isNeedless)
      variants.erase(variants.begin() + static_cast<ptrdiff_t>(i));
  }
}

/// The variants of an op over prompts; the last one, for calls that no other takes, is the op's own choice.
Expected<std::vector<KernelVariant>> TileChooser::choosePrompts(const Op &op) {
  // From the longest prompts on: kernels that were chosen for them serve shorter ones, too.
  std::vector<KernelVariant> chosen;
  for (int64_t tokens : promptClassesOf(op)) {
    Expected<std::vector<PromptRows>> all = rowsOfClass(op, tokens);
    if (!all)
      return all.takeError();
    // There is one unless the user asked for kernels that take few rows only, and in another order than those for many.
    Expected<std::string> order = orderOfClass(op, tokens, *all);
    if (!order)
      return order.takeError();
    for (const PromptRows &at : llvm::reverse(*all))
      chosen.push_back({at.rows, at.tokens, chooseOfOrder(op, at, *order, chosen)});
  }
  std::reverse(chosen.begin(), chosen.end());
  dropNeedless(chosen);
  return chosen;
}

} // namespace kiln
