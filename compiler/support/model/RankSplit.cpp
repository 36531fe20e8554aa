#include "support/model/RankSplit.h"

namespace kiln {

std::string RankSplit::problem(int64_t extent) const {
  if (ranks < 2 || unit < 1 || parts < 1)
    return ("expected 2 ranks or more, and unit and parts of 1 or more, got ranks " + Twine(ranks) + ", unit " +
            Twine(unit) + " and parts " + Twine(parts))
        .str();
  if (extent < 1 || extent % parts != 0 || extent / parts % unit != 0)
    return ("expected an extent of " + Twine(parts) + " parts with whole units of " + Twine(unit) + ", got " +
            Twine(extent))
        .str();
  if (int64_t units = extent / parts / unit; units < ranks)
    return ("expected at least a unit for each of " + Twine(ranks) + " ranks, got " + Twine(units)).str();
  return "";
}

int64_t RankSplit::room(int64_t extent) const {
  int64_t units = extent / parts / unit;
  return ((units - 1) / ranks + 1) * unit * parts;
}

SmallVector<RankSplit::Run, 3> RankSplit::runs(int64_t extent, int64_t rank) const {
  assert(0 <= rank && rank < ranks && "a rank that there is not");
  int64_t whole = extent / parts, own = room(extent) / parts, units = whole / unit;
  int64_t each = units / ranks, more = units % ranks;
  int64_t first = rank * each + std::min(rank, more), count = each + (rank < more ? 1 : 0);
  SmallVector<Run, 3> result;
  for (int64_t part = 0; part < parts; ++part)
    result.push_back({part * whole + first * unit, part * own, count * unit});
  return result;
}

} // namespace kiln
