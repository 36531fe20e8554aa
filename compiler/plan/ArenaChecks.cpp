#include "plan/ArenaChecks.h"

namespace kiln {

namespace {

// Kernels load 16 bytes at a time.
constexpr int64_t alignment = 16;

/// A range of the arena that one value or scratch occupies.
struct Stretch {
  std::string name; ///< for messages
  Place place;      ///< position of its offset in the plan
  Expr begin, end;
  int64_t last = 0; ///< last step at which it is live
};

/// Walks over the steps and keeps the live ranges, sorted by their beginnings. Ranges that never overlap have the same
/// order for all dims, so the order at the dims' lower bounds is the one to prove. If all neighbours are disjoint, all
/// ranges are. So each range is compared only with its neighbours, and only when it becomes live: the range that ends
/// leaves two neighbours that were on either side of it, and so are disjoint.
class ArenaChecker {
public:
  ArenaChecker(const PlanFunction &function, Place place, const FormulaChecks &formulas)
      : function(function), place(place), formulas(formulas) {}

  Error check() {
    size_t buffer = 0;
    for (size_t step = 0; step < function.steps.size(); ++step) {
      expire(static_cast<int64_t>(step));
      for (; buffer < function.buffers.size() && function.buffers[buffer].first == static_cast<int64_t>(step); ++buffer)
        if (Error error = addBuffer(buffer))
          return error;
      if (Error error = addWorkspace(step))
        return error;
    }
    return Error::success();
  }

private:
  Error addBuffer(size_t i) {
    const PlanBuffer &buffer = function.buffers[i];
    return add({"buffer '" + buffer.tensor.name + "'", place["buffers"][i]["offset"], buffer.offset,
                buffer.offset + buffer.tensor.bytes(), buffer.last});
  }

  /// Adds scratch, which is a buffer that is live for one step.
  Error addWorkspace(size_t step) {
    const std::optional<PlanWorkspace> &workspace = function.steps[step].workspace;
    if (!workspace)
      return Error::success();
    Place where = place["steps"][step]["workspace"];
    if (Error error = formulas.checkRange(where["bytes"], workspace->bytes, 1))
      return error;
    return add({"workspace", where["offset"], workspace->offset, workspace->offset + workspace->bytes,
                static_cast<int64_t>(step)});
  }

  Error add(const Stretch &stretch) {
    for (const Expr &expr : {stretch.begin, stretch.end})
      if (Error error = formulas.checkRange(stretch.place, expr, 0))
        return error;
    if (Error error = formulas.checkMultiple(stretch.place, stretch.begin, alignment))
      return error;
    if (!formulas.isNeverMore(stretch.end, function.arena))
      return stretch.place.fail(stretch.name + " reaches past the arena: expected an end of " +
                                formulas.describeMore(stretch.end, function.arena));
    return checkNeighbours(stretch);
  }

  Error checkNeighbours(const Stretch &stretch) {
    const int64_t begin = formulas.lowest(stretch.begin);
    auto [it, isNew] = live.insert({begin, stretch});
    if (!isNew)
      return overlap(stretch, it->second, stretch, it->second);
    if (it != live.begin())
      if (const Stretch &before = std::prev(it)->second; !formulas.isNeverMore(before.end, stretch.begin))
        return overlap(stretch, before, before, stretch);
    if (auto behind = std::next(it); behind != live.end())
      if (!formulas.isNeverMore(stretch.end, behind->second.begin))
        return overlap(stretch, behind->second, stretch, behind->second);
    ends.insert({stretch.last, begin});
    return Error::success();
  }

  /// The error about two overlapping ranges: `front` would have to end before `back` begins.
  Error overlap(const Stretch &added, const Stretch &other, const Stretch &front, const Stretch &back) const {
    std::string where = formulas.whereMore(front.end, back.begin);
    return added.place.fail(
        added.name + " overlaps " + other.name + " while both are live" +
        (where.empty() ? ", or may: expected an end of " + formulas.describeMore(front.end, back.begin) : where));
  }

  void expire(int64_t step) {
    for (auto it = ends.begin(); it != ends.end() && it->first < step; it = ends.erase(it))
      live.erase(it->second);
  }

  const PlanFunction &function;
  Place place;
  const FormulaChecks &formulas;
  std::map<int64_t, Stretch> live;      ///< by their beginnings
  std::multimap<int64_t, int64_t> ends; ///< last step -> beginning, for each live range
};

} // namespace

Error checkArena(const PlanFunction &function, Place place, const FormulaChecks &formulas) {
  return ArenaChecker(function, place, formulas).check();
}

} // namespace kiln
