#include "ops/Region.h"

namespace kiln {

const Op *anchor(const Op &op) {
  if (!op.region())
    return &op;
  for (Trait trait : {Trait::Contraction, Trait::RowWise})
    for (const auto &inner : op.region()->ops())
      if (inner->has(trait))
        return inner.get();
  return op.region()->ops().front().get();
}

const Value *writtenState(const Value &result) {
  const Op *op = result.definingOp();
  if (op && op->region())
    op = op->region()->terminator()->operand(result.resultIndex())->definingOp();
  return op && op->has(Trait::WritesState) ? op->operand(0) : nullptr;
}

std::vector<const Op *> opsOf(const Block &region) {
  std::vector<const Op *> ops;
  for (const auto &op : region.ops())
    if (!op->has(Trait::Terminator))
      ops.push_back(op.get());
  return ops;
}

size_t contractionsOf(const Op &op) {
  auto isContraction = [](const auto &inner) { return inner->has(Trait::Contraction); };
  return op.region() ? static_cast<size_t>(llvm::count_if(op.region()->ops(), isContraction)) : 0;
}

std::string structureOf(const Op &op) {
  std::string text = op.symbol;
  DenseMap<const Value *, size_t> numbers;
  auto addValue = [&](const Value &value) {
    auto [it, isNew] = numbers.try_emplace(&value, numbers.size());
    text += " %" + std::to_string(it->second);
    if (!isNew)
      return;
    StringRef origin = value.isWeight() ? "weight" : value.isState() ? "state" : value.definingOp() ? "" : "argument";
    text += (":" + origin + value.type.str()).str();
  };
  auto addOp = [&](const Op &one) {
    text += ("\n" + one.mnemonic()).str();
    for (const Value *operand : one.operands())
      addValue(*operand);
    AttributeMap own = one.attributes();
    for (const AttributeSpec &spec : commonAttributes())
      own.erase(spec.name.str());
    text += " " + Attribute(own).str() + " =";
    for (const auto &result : one.results())
      addValue(*result);
  };
  if (op.region())
    for (const auto &inner : op.region()->ops())
      addOp(*inner);
  addOp(op);
  return text;
}

std::string regionName(const Block &region) {
  auto holds = [&](OpKind kind) { return llvm::any_of(region.ops(), [&](const auto &op) { return op->is(kind); }); };
  bool isAttention = holds(OpKind::qk) && holds(OpKind::softmax) && holds(OpKind::pv);
  SmallVector<StringRef, 8> labels;
  for (const auto &op : region.ops()) {
    if (op->has(Trait::Terminator))
      continue;
    StringRef label = op->def().label ? op->def().label(*op) : op->mnemonic();
    // The ops that compute or merge statistics, and the one that applies them, share one name.
    if (holds(OpKind::normalizeProduct) &&
        (op->is(OpKind::rowMean) || op->is(OpKind::rowRstd) || op->is(OpKind::mergedRstd)))
      label = "norm";
    else if (holds(OpKind::allReduce) && (op->is(OpKind::rowMean) || op->is(OpKind::rowRstd)))
      label = "statistics";
    // So do all ops that belong to the scores.
    if (isAttention && (op->has(Trait::Contraction) || op->is(OpKind::softmax) || op->is(OpKind::scale) ||
                        op->is(OpKind::causalMask) || op->is(OpKind::mergeHeads)))
      label = "attention";
    if (!llvm::is_contained(labels, label))
      labels.push_back(label);
  }
  return llvm::join(labels, "_");
}

} // namespace kiln
