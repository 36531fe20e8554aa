// Kernels that exchange values with other ranks, around the templates of exchange/.
#include "codegen/KernelText.h"
#include "ops/Region.h"
#include "support/model/RankSplit.h"

namespace kiln {

/// `row`, `col` of the element at an index.
static std::string placeLine(Functor &functor, const Dim &cols) {
  std::string width = functor.extent(cols);
  return "  const int row = int(index / " + width + "), col = int(index % " + width + ");";
}

/// Emits the ops behind the sum of all ranks, at `row`, `col`. Error: an op that is not allowed there.
static Error emitBehindSum(EpilogueEmitter &emitter, const Op &op, const Op &reduce) {
  Coordinates at;
  at.row = "row";
  at.index = {"row", "col"};
  emitter.begin(*reduce.result(), at);
  if (op.region())
    for (const auto &inner : op.region()->ops())
      if (inner.get() != &reduce && !inner->has(Trait::Terminator))
        if (Error error = emitter.emit(*inner))
          return error;
  return Error::success();
}

/// The sum of all ranks, and the ops behind it. `groups` gets what becomes of statistics of groups of columns.
static Error writeSum(Functor &body, const Op &op, const Op &reduce, const KernelNames &names,
                      std::vector<CodeLine> &groups) {
  EpilogueEmitter emitter(body, names, op, 2);
  emitter.makeGroups();
  const Value &sum = *reduce.result();
  if (Error error = emitBehindSum(emitter, op, reduce))
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

/// The load of elements of this rank's part.
static void addLoad(Functor &body, const Value &part) {
  body.add("template <int V> KILN_DEVICE Vec<float, V> load(i64 index) const { return kiln::load<V>(" +
           body.pointer(part) + " + index); }");
}

Expected<KernelText> writeExchangeKernel(const Op &op, const KernelChoice &choice) {
  const Op &exchange = *anchor(op);
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const int64_t ranks = op.parent()->function()->module().ranks();
  kernel.constant("kRanks", Twine(ranks));
  kernel.addInboxes();
  const Value &x = *exchange.operand(0);
  Functor body("Body", names);
  // One that has a share of a row writes it where all ranks have it.
  const bool isShared = choice.family->form == KernelForm::ExchangeShares;
  if (isShared)
    body.pointersOfRanks(*op.result(), ranks, /*writes=*/true);
  addLoad(body, x);
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

/// What becomes of the sum of a row, as exchange/row_body.cuh has it. Error: an op behind the sum that is neither
/// pointwise nor a statistic of its rows.
static Error addRowSum(Functor &body, const Op &op, const Op &reduce, const KernelNames &names) {
  EpilogueEmitter emitter(body, names, op, 2);
  emitter.readAhead();
  emitter.makeRowStatistics();
  const Value &sum = *reduce.result();
  if (Error error = emitBehindSum(emitter, op, reduce))
    return error;
  addOperands(body, emitter.ahead(), "");
  const Value *rows = emitter.summarised();
  body.add("template <int V>");
  body.add("KILN_DEVICE " + Twine(rows ? "Vec<float, V>" : "void") + " operator()(Vec<float, V> " + names.of(sum) +
           ", const Operands<V> &with, int row, int col) const {");
  body.add("  // " + names.line(reduce), &reduce);
  body.add(emitter.text());
  if (rows)
    body.add("  return " + names.of(*rows) + ";");
  body.add("}");
  if (!rows)
    return Error::success();
  body.add("using Row = " + cxxType(rows->type.dtype) + ";");
  body.add("static constexpr float kEps = " + emitter.epsilonOfRows() + "f;");
  body.add("KILN_DEVICE void statistics(RowStatistics s, int row) const {");
  body.add(emitter.statisticText());
  body.add("}");
  return Error::success();
}

Expected<KernelText> writeRowSumKernel(const Op &op, const KernelChoice &choice) {
  const Op &reduce = *anchor(op);
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const int64_t ranks = op.parent()->function()->module().ranks();
  kernel.constant("kRanks", Twine(ranks));
  kernel.constant("kCols", reduce.operand(0)->type.lastDim().str());
  kernel.addInboxes();
  const Value &part = *reduce.operand(0);
  Functor body("Body", names);
  const std::string type = cxxType(part.type.dtype).str(), cols = part.type.lastDim().str();
  // A rank that adds up a share of the rows reads the parts of all ranks, and writes the results of all.
  const bool isSliced = choice.family->form == KernelForm::ExchangeSlices;
  if (isSliced) {
    body.pointersOfRanks(part, ranks);
    for (const auto &result : op.results())
      body.pointersOfRanks(op.region() ? *op.region()->terminator()->operand(result->resultIndex()) : *result, ranks,
                           /*writes=*/true);
    body.add("using Part = " + type + ";");
    body.add("KILN_DEVICE const Part *part(int rank, int row) const { return " + body.pointer(part) +
             "[rank] + i64(row) * " + cols + "; }");
  } else {
    addLoad(body, part);
  }
  if (Error error = addRowSum(body, op, reduce, names))
    return error;
  kernel.add(body);
  std::string rows = productText(kernel.call(), ArrayRef<Dim>(part.type.shape).drop_back());
  // Shared memory has parts, or results.
  const std::string layoutType = isSliced ? type : cxxType(op.result(0)->type.dtype).str();
  return kernel.finish(choice.family->body + "<Config>(" + rows + ", Exchange<" + Twine(ranks) +
                           ">{inboxes, rank, stop}, " + body.construction() + ");",
                       part.type.dtype, "n" + cols, layoutType);
}

} // namespace kiln
