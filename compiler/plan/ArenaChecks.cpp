#include "plan/ArenaChecks.h"

namespace kiln {

namespace {

// Kernels load 16 bytes at a time.
constexpr int64_t alignment = 16;

/// Bytes of the arena that something has for itself.
struct Stretch {
  std::string name; ///< for messages
  Place place;      ///< of its offset
  Expr begin, end;
  int64_t last = 0; ///< step to which it is live
};

/// Walks over the steps with the stretches that are live, sorted by where they begin. Two that never overlap have one
/// order for all dims, so that at the lower ends of the dims is the one to prove; and where neighbours lie apart, all
/// do. So each is compared with its neighbours only, when it becomes live: one that goes leaves two others that lay on
/// either side of it.
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

  /// Scratch is a buffer that lives for one step.
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

  /// One of two overlapping ranges: `front` would have to end where `back` begins.
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
  std::map<int64_t, Stretch> live;      ///< by where they begin
  std::multimap<int64_t, int64_t> ends; ///< of each that is live, the last step and where it begins
};

} // namespace

Error checkArena(const PlanFunction &function, Place place, const FormulaChecks &formulas) {
  return ArenaChecker(function, place, formulas).check();
}

} // namespace kiln
