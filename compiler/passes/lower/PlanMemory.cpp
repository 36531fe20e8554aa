// plan-memory: gives every intermediate value a place in one arena, and shares bytes between values that are never
// live together.
//
//   func @f(…) -> … {                             func @f(…) -> … attributes {arena = "…", live = "…"} {
//     %a = … : f32[B,T,768]                  ->     %a = … {offsets = ["0"]} : f32[B,T,768]
//     %b = … : f32[B,T,3072]                        %b = … {offsets = ["3072*B*T"]} : f32[B,T,3072]
//
// Sizes are products of dims and a constant. Values with the same dims (B*T, B, none) form a zone; within a zone
// offsets are multiples of the same product, so a layout that is right for one value of the dims is right for all.
// Zones are stored one after the other. In a zone the largest value is placed first, each at the lowest offset that is
// free while it is live (first fit by decreasing size). `arena` is the size, `live` the largest sum of bytes that are
// live at once, which is a lower bound for every layout. A kernel's workspace is a value that lives during its op.
//
// Values that are the new state of a cache have no bytes of their own; arguments are the caller's. A function's
// results stay live to its end.
//
// Refuses: ops without `tile` whose kernel needs a workspace, and with a kernel, tile or variants that do not fit them:
// an error at the op.
#include "kernels/cost/Problem.h"
#include "kernels/families/KernelFamily.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "support/model/ExprProof.h"

namespace kiln {

namespace {

/// A stretch of bytes that one value or workspace needs from op `first` to op `last`.
struct Buffer {
  Expr unit;         ///< product of the symbolic dims
  int64_t bytes = 0; ///< for each unit
  size_t first = 0, last = 0;
  int64_t offset = 0; ///< in the zone, for each unit
};

/// A line of L2. Kernels need multiples of 16 bytes, but products of prompts are up to 1.7 times as slow if the rows
/// that they copy lie across two lines.
constexpr int64_t alignment = 128;

int64_t alignUp(int64_t value) { return (value + alignment - 1) / alignment * alignment; }

/// Splits `4*3072*B*T` into 12288 and `B*T`, the symbols in the order of their names.
Buffer makeBuffer(ArrayRef<Dim> shape, int64_t elementBytes) {
  int64_t bytes = elementBytes;
  std::multiset<std::string> symbols;
  for (const Dim &dim : shape) {
    if (dim.asConstant())
      bytes *= *dim.asConstant();
    else
      symbols.insert(dim.str());
  }
  Expr unit(1);
  for (const std::string &symbol : symbols)
    unit = unit * Expr::name(symbol);
  return {unit, alignUp(bytes), 0, 0, 0};
}

/// Room for the workspace of an op. One of so many bytes a row is placed like a value. Others scale with the batch if
/// this provably suffices for all dims, which the plan's reader checks again; otherwise they have their maximum size.
Expected<Buffer> workspaceBuffer(const Op &op, const Expr &bytes) {
  DimBounds bounds = {lowerBounds(op), upperBounds(op)};
  Expected<int64_t> most = bytes.evaluate(bounds.high);
  if (!most)
    return most.takeError();
  const Type &rows = anchor(op)->operand(0)->type;
  int64_t perRow = *most / valueAt(rowCount(rows), bounds.high);
  if (isNeverMore(bytes, Expr(perRow) * rowCount(rows), bounds))
    return makeBuffer(ArrayRef<Dim>(rows.shape).drop_back(), perRow);
  Dim batch = anchor(op)->operand(0)->type.shape[0];
  if (batch.getSymbol() && !bytes.asConstant()) {
    DimBinding one = bounds.high;
    one[batch.str()] = 1;
    int64_t perSequence = alignUp(valueAt(bytes, one));
    if (isNeverMore(bytes, Expr(perSequence) * batch.expr(), bounds))
      return Buffer{batch.expr(), perSequence, 0, 0, 0};
  }
  return Buffer{Expr(1), alignUp(*most), 0, 0, 0};
}

class FunctionPlanner {
public:
  /// `checked`: as checkChoices has it.
  FunctionPlanner(Function &function, std::set<std::string> &checked) : function(function), checked(checked) {}

  Error run() {
    if (Error error = collect())
      return error;
    Expr base(0);
    std::map<std::string, std::vector<Buffer *>> zones;
    for (auto &buffer : buffers)
      zones[buffer->unit.str()].push_back(buffer.get());
    for (auto &[unit, zone] : zones) {
      bases.insert({unit, base});
      base = base + Expr(place(zone)) * zone.front()->unit;
    }
    annotate(base);
    return Error::success();
  }

private:
  Error collect();
  Error collectWorkspace(Op &op, size_t position);
  int64_t place(std::vector<Buffer *> &zone) const;
  void annotate(const Expr &arena);
  Expr offsetOf(const Buffer &buffer) const {
    return bases.find(buffer.unit.str())->second + Expr(buffer.offset) * buffer.unit;
  }
  std::set<std::vector<int64_t>> liveSums() const;
  Expr largestLiveSet() const;

  Function &function;
  std::set<std::string> &checked;
  std::vector<std::unique_ptr<Buffer>> buffers;
  DenseMap<const Value *, Buffer *> ofValue;
  DenseMap<const Op *, Buffer *> workspaceOf;
  std::map<std::string, Expr> bases;
};

Error FunctionPlanner::collect() {
  for (const auto &[position, op] : llvm::enumerate(function.body.ops())) {
    for (const Value *input : op->inputs())
      if (auto it = ofValue.find(input); it != ofValue.end())
        it->second->last = position;
    for (const auto &result : op->results()) {
      if (writtenState(*result))
        continue;
      buffers.push_back(std::make_unique<Buffer>(makeBuffer(result->type.shape, dtypeSize(result->type.dtype))));
      buffers.back()->first = buffers.back()->last = position;
      ofValue[result.get()] = buffers.back().get();
    }
    if (Error error = collectWorkspace(*op, position))
      return error;
  }
  return Error::success();
}

Error FunctionPlanner::collectWorkspace(Op &op, size_t position) {
  if (!op.attribute("kernel"))
    return Error::success();
  Expected<const Target *> target = targetOf(function.module());
  if (!target)
    return target.takeError();
  Expected<const KernelFamily *> family = checkFamily(op, op.attribute("kernel"), **target, boundsToChooseFor(op));
  if (!family)
    return family.takeError();
  if (!(*family)->workspace && !op.attribute("variants"))
    return Error::success();
  if (Error error = checkChoices(op, **target, checked))
    return error;
  std::optional<Expr> workspace = workspaceBytes(op);
  if (!workspace)
    return Error::success();
  Expected<Buffer> buffer = workspaceBuffer(op, *workspace);
  if (!buffer)
    return buffer.takeError();
  buffer->first = buffer->last = position;
  buffers.push_back(std::make_unique<Buffer>(std::move(*buffer)));
  workspaceOf[&op] = buffers.back().get();
  return Error::success();
}

/// Buffers of a zone that have been placed.
class PlacedBuffers {
public:
  explicit PlacedBuffers(size_t ops) : liveAt(ops) {}

  void add(const Buffer &buffer) {
    for (size_t op = buffer.first; op <= buffer.last; ++op)
      liveAt[op].push_back(&buffer);
  }

  /// The buffers that are live while `buffer` is, ordered by offset.
  std::vector<const Buffer *> beside(const Buffer &buffer) const {
    std::vector<const Buffer *> found;
    for (size_t op = buffer.first; op <= buffer.last; ++op)
      for (const Buffer *other : liveAt[op])
        if (op == std::max(buffer.first, other->first)) // once, where both begin to be live
          found.push_back(other);
    llvm::sort(found, [](const Buffer *a, const Buffer *b) { return a->offset < b->offset; });
    return found;
  }

private:
  std::vector<std::vector<const Buffer *>> liveAt; ///< by op
};

/// Assigns offsets; returns the zone's bytes for each unit.
int64_t FunctionPlanner::place(std::vector<Buffer *> &zone) const {
  llvm::stable_sort(zone, [](const Buffer *a, const Buffer *b) { return a->bytes > b->bytes; });
  PlacedBuffers placed(function.body.ops().size());
  int64_t end = 0;
  for (Buffer *buffer : zone) {
    int64_t at = 0;
    for (const Buffer *other : placed.beside(*buffer))
      if (at + buffer->bytes > other->offset)
        at = std::max(at, other->offset + other->bytes);
    buffer->offset = at;
    placed.add(*buffer);
    end = std::max(end, at + buffer->bytes);
  }
  return end;
}

/// The bytes that are live at each op, summed for every unit, in the order of the units. Equal sums are listed once.
std::set<std::vector<int64_t>> FunctionPlanner::liveSums() const {
  std::map<std::string, size_t> units; // every zone, so that all sums have the same terms
  for (const auto &[unit, base] : bases)
    units.insert({unit, units.size()});
  size_t ops = function.body.ops().size();
  std::vector<std::vector<const Buffer *>> starting(ops), ending(ops);
  for (const auto &buffer : buffers) {
    starting[buffer->first].push_back(buffer.get());
    ending[buffer->last].push_back(buffer.get());
  }
  std::set<std::vector<int64_t>> sums;
  std::vector<int64_t> live(units.size());
  auto count = [&](ArrayRef<const Buffer *> changing, int64_t sign) {
    for (const Buffer *buffer : changing)
      live[units.find(buffer->unit.str())->second] += sign * buffer->bytes;
  };
  for (size_t op = 0; op < ops; ++op) {
    count(starting[op], 1);
    sums.insert(live);
    count(ending[op], -1);
  }
  return sums;
}

/// The largest sum of live bytes over all ops; formulas that another one dominates are left out.
Expr FunctionPlanner::largestLiveSet() const {
  std::set<std::vector<int64_t>> sums = liveSums();
  auto dominates = [](const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
    return a != b && llvm::all_of(llvm::zip(a, b), [](auto pair) { return std::get<0>(pair) >= std::get<1>(pair); });
  };
  std::optional<Expr> largest;
  for (const std::vector<int64_t> &sum : sums) {
    if (llvm::any_of(sums, [&](const auto &other) { return dominates(other, sum); }))
      continue;
    Expr total(0);
    for (const auto &[bytes, zone] : llvm::zip(sum, bases))
      total = total + Expr(bytes) * cantFail(Expr::parse(zone.first));
    largest = largest ? max(*largest, total) : total;
  }
  return largest.value_or(Expr(0));
}

void FunctionPlanner::annotate(const Expr &arena) {
  for (const auto &op : function.body.ops()) {
    Attribute::List offsets;
    for (const auto &result : op->results()) {
      auto it = ofValue.find(result.get());
      offsets.push_back(Attribute::text(it == ofValue.end() ? "state" : offsetOf(*it->second).str()));
    }
    if (!offsets.empty())
      op->setAttribute("offsets", std::move(offsets));
    if (auto it = workspaceOf.find(op.get()); it != workspaceOf.end())
      op->setAttribute("workspace", Attribute::text(offsetOf(*it->second).str()));
  }
  function.attributes.insert_or_assign("arena", Attribute::text(arena.str()));
  function.attributes.insert_or_assign("live", Attribute::text(largestLiveSet().str()));
}

Error planMemory(Module &module, const PassOptions &) {
  std::set<std::string> checked;
  for (const auto &function : module.functions)
    if (Error error = FunctionPlanner(*function, checked).run())
      return error;
  return Error::success();
}

} // namespace

const PassDef planMemoryPass = {
    .name = "plan-memory",
    .summary = "Places intermediate values in one arena and shares bytes by liveness",
    .run = planMemory,
    .sets = {"offsets", "workspace"},
};

} // namespace kiln
