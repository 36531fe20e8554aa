// Kernels that exchange values with other ranks, around exchange/exchange.cuh.
#include "codegen/KernelText.h"
#include "ops/Region.h"
#include "support/model/RankSplit.h"

namespace kiln {

/// `row`, `col` of the element at an index.
static std::string placeLine(Functor &functor, const Dim &cols) {
  std::string width = functor.extent(cols);
  return "  const int row = int(index / " + width + "), col = int(index % " + width + ");";
}

/// The sum of all ranks, and the ops behind it. `groups` gets what becomes of statistics of groups of columns.
static Error writeSum(Functor &body, const Op &op, const Op &reduce, const KernelNames &names,
                      std::vector<CodeLine> &groups) {
  EpilogueEmitter emitter(body, names, op, 2);
  emitter.makeGroups();
  const Value &sum = *reduce.result();
  Coordinates at;
  at.row = "row";
  at.index = {"row", "col"};
  emitter.begin(sum, at);
  if (op.region())
    for (const auto &inner : op.region()->ops())
      if (inner.get() != &reduce && !inner->has(Trait::Terminator))
        if (Error error = emitter.emit(*inner))
          return error;
  body.add("  const auto " + names.of(sum) + " = parts.sum(); // " + names.line(reduce), &reduce);
  body.add(emitter.text());
  if (const Value *grouped = emitter.grouped())
    body.add("  group(groupStatistics(rounded<" + cxxType(grouped->type.dtype) + ">(" + names.of(*grouped) +
             ")), row, col / kGroupColumns);");
  groups = emitter.groupText().vec();
  return Error::success();
}

/// The shares of all ranks, each where it lies in the whole row.
static void writeShares(Functor &body, const Op &gather, const KernelNames &names) {
  const Value &out = *gather.result();
  const int64_t size = gather.intAttribute("size"), ranks = gather.parent()->function()->module().ranks();
  const RankSplit split = {.ranks = ranks, .unit = gather.intAttribute("unit", 1)};
  std::string pointer = body.pointer(out, /*writes=*/true);
  body.add("  // " + names.line(gather));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const RankSplit::Run run = split.runs(size, rank).front();
    body.add("  storeShare(" + pointer + " + i64(row) * " + Twine(size) + " + " + Twine(run.from) + " + col, parts[" +
                 Twine(rank) + "], col, " + Twine(run.count) + ");",
             &gather);
  }
}

/// This rank's share, where it lies in the whole row.
static void writeOwnShare(Functor &body, const Op &gather, const KernelNames &names) {
  const Value &out = *gather.result();
  const int64_t size = gather.intAttribute("size"), ranks = gather.parent()->function()->module().ranks();
  body.add("  storeShare(" + body.pointer(out, /*writes=*/true) + " + (i64(row) * " + Twine(size) + " + " +
               firstOfShare(body, size, ranks) + " + col), values, col, " + countOfShare(body, size, ranks) + "); // " +
               names.line(gather),
           &gather);
}

Expected<KernelText> writeExchangeKernel(const Op &op, const KernelChoice &choice) {
  const Op &exchange = *anchor(op);
  KernelNames names(op);
  KernelAssembler kernel(op, choice, names);
  const int64_t ranks = op.parent()->function()->module().ranks();
  kernel.constant("kRanks", Twine(ranks));
  kernel.addInboxes();
  const Value &x = *exchange.operand(0);
  Functor body("Body", names);
  // A rank that adds up a slice reads the parts of all ranks, and writes the results of all; so does one that has a
  // share.
  const bool isSliced = choice.family->form == KernelForm::ExchangeSlices;
  const bool isShared = choice.family->form == KernelForm::ExchangeShares;
  if (isSliced)
    body.pointersOfRanks(x, ranks);
  if (isSliced || isShared)
    body.pointersOfRanks(op.region() ? *op.region()->terminator()->operand(0) : *op.result(), ranks, /*writes=*/true);
  body.add("template <int V> KILN_DEVICE Vec<float, V> load(" + Twine(isSliced ? "int rank, " : "") +
           "i64 index) const { return kiln::load<V>(" + body.pointer(x) + (isSliced ? "[rank]" : "") + " + index); }");
  const std::string given = isShared ? "Vec<float, V> &values" : "RankParts<" + std::to_string(ranks) + ", V> &parts";
  body.add("template <int V> KILN_DEVICE void operator()(i64 index, const " + given + ") const {");
  body.add(placeLine(body, x.type.lastDim()));
  std::vector<CodeLine> groups;
  if (isShared)
    writeOwnShare(body, exchange, names);
  else if (exchange.is(OpKind::allGather))
    writeShares(body, exchange, names);
  else if (Error error = writeSum(body, op, exchange, names, groups))
    return error;
  body.add("}");
  if (!groups.empty()) {
    body.add("KILN_DEVICE void group(GroupStatistics s, int row, int index) const {");
    body.add(groups);
    body.add("}");
  }
  kernel.add(body);
  std::string count;
  for (const Dim &dim : x.type.shape)
    count += (count.empty() ? "i64(" : " * ") + kernel.call().extent(dim) + (count.empty() ? ")" : "");
  return kernel.finish(choice.family->body + "<Config>(" + count + ", Exchange<" + Twine(ranks) +
                           ">{inboxes, rank, stop}, " + body.construction() + ");",
                       x.type.dtype, "n" + x.type.lastDim().str());
}

} // namespace kiln
