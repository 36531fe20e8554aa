#include "kernels/cost/Work.h"

#include "kernels/cost/Problem.h"

namespace kiln {

namespace {

/// The number of elements of an op's values that are used. In a region that masks scores, [B,H,T,S], only scores of
/// visible keys count, and the rows of these keys and their values.
class Seen {
public:
  explicit Seen(const Op &op) {
    const Op *mask = op.region() ? findInRegion(op, OpKind::causalMask) : nullptr;
    if (!mask || !findInRegion(op, OpKind::qk))
      return;
    for (const auto &inner : op.region()->ops()) {
      if (inner->is(OpKind::qk) || isScores(*inner))
        scores.insert(inner->result());
      if (inner->is(OpKind::qk) || (inner->is(OpKind::pv) && scores.contains(inner->operand(0))))
        keys.insert(inner->operand(1));
    }
    count(*mask);
  }

  /// The new value of a state that the region writes and then attends to; null if there is none.
  const Value *attendedIn(const Value &state) const {
    for (const Op *user : state.getUsers())
      if (user->has(Trait::WritesState) && keys.contains(user->result()))
        return user->result();
    return nullptr;
  }

  Expr elements(const Value &value) const {
    ArrayRef<Dim> shape = value.type.shape;
    if (scores.contains(&value))
      return shape[0].expr() * shape[1].expr() * pairs;
    if (keys.contains(&value))
      return shape[0].expr() * shape[1].expr() * seenKeys * shape[3].expr();
    return value.type.elements();
  }

private:
  bool isScores(const Op &inner) const {
    return (inner.has(Trait::Pointwise) || inner.has(Trait::RowWise)) && scores.contains(inner.operand(0));
  }

  void count(const Op &mask) {
    const Dim &queries = mask.result()->type.shape[2];
    Expr extent = queries.expr();
    if (isAtLengths(mask)) {
      // All prompts are counted as long as they can be.
      pairs = seenKeys = mask.topLevel()->parent()->function()->arguments[0]->type.shape[1].expr();
    } else {
      Expr past = mask.operandOrNull(1) ? Expr::name(pastTokens) : Expr(0);
      seenKeys = past + extent;
      // Query t sees all keys before the call, and those of the call up to its own.
      pairs = extent * past + ceilDiv(extent * (extent + 1), 2);
    }
    const Attribute *window = mask.attribute("window");
    if (!window)
      return;
    pairs = min(pairs, extent * Expr(window->asInt()));
    if (queries == Dim(1))
      seenKeys = min(seenKeys, Expr(window->asInt()));
  }

  std::set<const Value *> scores, keys;
  Expr seenKeys, pairs; ///< of one head
};

} // namespace

/// Whether the op reads only as many rows of the operand as the result has: an embedding's tables, or a prompt whose
/// last row is selected.
static bool isGathered(const Op &op, const Value &input) {
  return (op.is(OpKind::embed) && input.isWeight()) || (op.is(OpKind::lastRow) && op.operand(0) == &input);
}

/// The op that reads only such rows of an input of `op`: itself, or the only one of its region that reads the input;
/// or null.
static const Op *gathererOf(const Op &op, const Value &input) {
  if (!op.region())
    return isGathered(op, input) ? &op : nullptr;
  const Op *only = nullptr;
  for (const Op *user : input.getUsers()) {
    if (user->parentOp() != &op)
      continue;
    if (only || !isGathered(*user, input))
      return nullptr;
    only = user;
  }
  return only;
}

/// Whether the op writes the state in place without reading it.
static bool isOnlyWritten(const Op &op, const Value &input) {
  return input.isState() && llvm::all_of(input.getUsers(), [&](const Op *user) {
           bool reads = user == &op || user->parentOp() == &op;
           return !reads || user->has(Trait::WritesState);
         });
}

Expr bytesMoved(const Op &op) {
  Seen seen(op);
  Expr total(0);
  for (const Value *input : op.inputs())
    if (const Value *attended = input->isState() ? seen.attendedIn(*input) : nullptr)
      total = total + seen.elements(*attended) * Expr(dtypeSize(input->type.dtype));
    else if (const Op *gatherer = gathererOf(op, *input))
      total = total + gatherer->result()->type.bytes();
    else if (!isOnlyWritten(op, *input))
      total = total + seen.elements(*input) * Expr(dtypeSize(input->type.dtype));
  auto written = [](const Op *writer) { return writer->operand(1)->type.bytes(); };
  for (const auto &result : op.results()) {
    const Op *source = &op;
    if (op.region())
      source = op.region()->terminator()->operand(result->resultIndex())->definingOp();
    total = total + (source && source->has(Trait::WritesState) ? written(source) : result->type.bytes());
  }
  return total;
}

double bytesMovedAt(const Op &op, const DimBinding &dims) {
  DimBinding all = dims;
  const Op *product = op.region() ? findInRegion(op, OpKind::qk) : nullptr;
  std::optional<int64_t> width = product ? product->operand(1)->type.shape[2].asConstant() : std::nullopt;
  all[pastTokens] = width ? *width - 1 : 0;
  return static_cast<double>(valueAt(bytesMoved(op), all));
}

Expr flopsOf(const Op &op) {
  Seen seen(op);
  auto elements = [&](const Value &value) { return seen.elements(value); };
  if (!op.region())
    return op.def().flops ? op.def().flops(op, elements) : Expr(0);
  Expr total(0);
  for (const auto &inner : op.region()->ops())
    if (inner->def().flops)
      total = total + inner->def().flops(*inner, elements);
  return total;
}

} // namespace kiln
