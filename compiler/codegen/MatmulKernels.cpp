// Kernels around a matrix product: Input reads (and normalises) the left operand, Epilogue receives the products.
#include "codegen/KernelText.h"
#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "ops/Region.h"

namespace kiln {

std::string productText(Functor &functor, ArrayRef<Dim> dims) {
  int64_t constant = 1;
  std::vector<std::string> factors;
  for (const Dim &dim : dims) {
    if (dim.asConstant())
      constant *= *dim.asConstant();
    else
      factors.push_back(functor.extent(dim));
  }
  if (constant != 1 || factors.empty())
    factors.push_back(std::to_string(constant));
  return llvm::join(factors, " * ");
}

/// Declares the parameters of a layernorm, and their load ahead of the arithmetic. Returns the expression that applies
/// them, to be appended to a normalised value; empty if the layernorm has none.
static std::string addNormParameters(Functor &input, const Op &layernorm) {
  if (layernorm.operands().size() == 1) {
    input.add("template <int V> struct Parameters {};");
    input.add("template <int V> KILN_DEVICE Parameters<V> parameters(int) const { return {}; }");
    return "";
  }
  std::string weight = input.pointer(*layernorm.operand(1));
  std::string bias = layernorm.operands().size() > 2 ? input.pointer(*layernorm.operand(2)) : "";
  auto load = [](const std::string &parameter) { return "kiln::load<V>(" + parameter + " + depth)"; };
  bool isOne = bias.empty() || weight == bias; // none, or both are the same tensor
  input.add("template <int V> struct Parameters {");
  input.add("  Vec<float, V> " + weight + (isOne ? "" : ", " + bias) + ";");
  input.add("};");
  input.add("template <int V> KILN_DEVICE Parameters<V> parameters(int depth) const {");
  input.add("  return {" + load(weight) + (isOne ? "" : ", " + load(bias)) + "};");
  input.add("}");
  return " * p." + weight + (bias.empty() ? "" : " + p." + bias);
}

/// Declares the functor that reads rows of `x`, with the layernorm that the region applies to them, or null.
static Functor inputFunctor(const KernelNames &names, const Value &x, const Op *layernorm) {
  Functor input("Input", names);
  std::string pointer = input.pointer(x), width = x.type.lastDim().str();
  input.add("static constexpr bool kNormalizes = " + Twine(layernorm ? "true" : "false") + ";");
  if (layernorm)
    input.add("static constexpr float kEps = " + layernorm->attribute("eps")->str() + "f;");
  input.add("template <int V> KILN_DEVICE Vec<float, V> load(int row, int depth) const {");
  input.add("  return kiln::load<V>(" + pointer + " + i64(row) * " + width + " + depth);");
  input.add("}");
  if (!layernorm)
    return input;
  std::string normed = names.of(*layernorm->result()).str(), apply = addNormParameters(input, *layernorm);
  input.add("template <int V>");
  input.add(
      "KILN_DEVICE Vec<float, V> normalize(Vec<float, V> value, RowStatistics s, const Parameters<V> &p) const {");
  input.add("  // " + names.line(*layernorm), layernorm);
  input.add("  const auto " + normed + " = (value - s.mean) * s.rstd" + apply + ";", layernorm);
  input.add("  return " + normed + ";");
  input.add("}");
  return input;
}

Coordinates matmulCoordinates(const Type &type) {
  Coordinates at;
  at.row = "row";
  // With one token per sequence, the row is the batch.
  bool isOneToken = hasOneToken(type);
  if (type.rank() == 4)
    at.index = {"b", "h", "t", "col"};
  else if (type.rank() == 3)
    at.index = {isOneToken ? "row" : "b", isOneToken ? "0" : "t", "col"};
  else
    at.index = {"row", "col"};
  return at;
}

void addOperands(Functor &epilogue, ArrayRef<EpilogueEmitter::Ahead> ahead, const std::string &batchAndToken) {
  epilogue.add("template <int V> struct Operands {");
  if (!ahead.empty() && llvm::all_of(ahead, [](const EpilogueEmitter::Ahead &operand) { return operand.isOfColumns; }))
    epilogue.add("  static constexpr bool kOfColumns = true; // the same in all rows");
  SmallVector<std::string, 4> loads;
  for (const EpilogueEmitter::Ahead &operand : ahead) {
    epilogue.add("  " + operand.type + " " + operand.name + ";");
    loads.push_back(operand.load);
  }
  epilogue.add("};");
  epilogue.add("template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {");
  if (llvm::any_of(ahead, [](const EpilogueEmitter::Ahead &operand) { return operand.usesBatchAndToken; }))
    epilogue.add(batchAndToken);
  epilogue.add("  return {" + llvm::join(loads, ", ") + "};");
  epilogue.add("}");
}

/// Declares the operands of which a row has one element, and their loads. Does nothing if there are none. `mails`:
/// blocks share them by mail.
static void addRowOperands(Functor &epilogue, const EpilogueEmitter &emitter, bool mails) {
  ArrayRef<EpilogueEmitter::Ahead> ahead = emitter.aheadOfRow();
  if (ahead.empty())
    return;
  if (mails) {
    epilogue.mail();
    epilogue.add("static constexpr int kRowLanes = " + Twine(emitter.rowLanes()) + ";");
  }
  auto text = [&](auto part) { return llvm::join(llvm::map_range(ahead, part), ", "); };
  epilogue.add("struct RowOperands {");
  epilogue.add("  " + ahead.front().type + " " + text([](const auto &operand) { return operand.name; }) + ";");
  epilogue.add("};");
  if (emitter.readsRows()) {
    const EpilogueEmitter::Row &row = *emitter.readsRows();
    epilogue.add("using Row = " + row.type + ";");
    epilogue.add("KILN_DEVICE const " + row.element + " *rowAt(int row) const { return " + row.address + "; }");
    epilogue.add("template <class AnyRow> KILN_DEVICE RowOperands operandsOf(const AnyRow &" + row.name + ") const {");
  } else {
    epilogue.add("template <int kLanes> KILN_DEVICE RowOperands rowOperands(int row) const {");
  }
  epilogue.add(emitter.rowText());
  epilogue.add("  return {" + text([](const auto &operand) { return operand.load; }) + "};");
  epilogue.add("}");
  if (emitter.readsRows())
    epilogue.add("template <int kLanes> KILN_DEVICE RowOperands rowOperands(int row) const { return "
                 "operandsOf(Row(rowAt(row))); }");
}

/// Declares what becomes of statistics of groups of columns. Does nothing if there are none.
static void addGroups(Functor &epilogue, const EpilogueEmitter &emitter) {
  if (!emitter.grouped())
    return;
  epilogue.add("using Grouped = " + cxxType(emitter.grouped()->type.dtype) + ";");
  epilogue.add("KILN_DEVICE void group(GroupStatistics s, int row, int index) const {");
  epilogue.add(emitter.groupText());
  epilogue.add("}");
}

/// Emits the ops of a region after its product, or after the sum over ranks, which is the template's, too. Error: an op
/// that is not allowed there, or an op before the product other than `layernorm`, which may be null.
static Error emitBehind(EpilogueEmitter &emitter, const Op &op, const Op &product, const Op *layernorm) {
  bool isBehind = false;
  for (const auto &inner : op.region()->ops()) {
    if (inner->has(Trait::Terminator) || inner.get() == layernorm)
      continue;
    if (inner.get() == &product)
      isBehind = true;
    else if (isBehind && inner->is(OpKind::allReduce) && inner->operand(0) == product.result())
      continue;
    else if (!isBehind)
      return opError(*inner, "expected nothing in front of the product but a layernorm of its left operand");
    else if (Error error = emitter.emit(*inner))
      return error;
  }
  return Error::success();
}

static Expected<Functor> epilogueFunctor(const Op &op, const KernelNames &names, const Op &product, const Op *layernorm,
                                         const KernelFamily &family, bool mails = false) {
  const bool readsAhead = family.readsAhead;
  Functor epilogue("Epilogue", names);
  EpilogueEmitter emitter(epilogue, names, op, 2);
  if (readsAhead)
    emitter.readAhead();
  emitter.computeStatistics(family.rowVectors);
  // What the template passes: of several ranks that have parts, their sum.
  const Value &result = *(sumsParts(op) ? findInRegion(op, OpKind::allReduce) : &product)->result();
  emitter.begin(result, matmulCoordinates(result.type));
  if (op.region())
    if (Error error = emitBehind(emitter, op, product, layernorm))
      return error;
  std::string batchAndToken;
  if (emitter.usesBatchAndToken() && !hasOneToken(result.type))
    batchAndToken = "  " + leadingIndices(epilogue, result.type);
  if (readsAhead) {
    addOperands(epilogue, emitter.ahead(), batchAndToken);
    addRowOperands(epilogue, emitter, mails);
    epilogue.add("template <int V>");
    StringRef returned = emitter.grouped() ? "Vec<float, V>" : "void";
    StringRef ofRow = emitter.aheadOfRow().empty() ? "" : "const RowOperands &of, ";
    epilogue.add("KILN_DEVICE " + returned + " operator()(Vec<float, V> " + names.of(result) +
                 ", const Operands<V> &with, " + ofRow + "int row, int col) const {");
  } else {
    epilogue.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + names.of(result) +
                 ", int row, int col) const {");
  }
  if (!batchAndToken.empty())
    epilogue.add(batchAndToken);
  epilogue.add(emitter.text());
  if (emitter.grouped())
    epilogue.add("  return " + names.of(*emitter.grouped()) + ";");
  epilogue.add("}");
  addGroups(epilogue, emitter);
  return epilogue;
}

Expected<KernelText> writeMatmulKernel(const Op &op, const KernelChoice &choice) {
  const Op &product = *anchor(op);
  KernelNames names(op, *choice.family, {"p"}); // the parameters of a normalisation
  KernelAssembler kernel(op, choice, names);
  MatmulProblem problem = matmulProblem(op);
  std::string cols = problem.cols.str(), depth = problem.depth.str();
  kernel.constant("kCols", cols);
  kernel.constant("kDepth", depth);
  if (choice.family->takesEitherOrder)
    kernel.constant("kWeightTransposed", problem.transposed ? "true" : "false");

  const Value *x = product.operand(0);
  const Op *layernorm = x->definingOp() && x->definingOp()->parentOp() == &op ? x->definingOp() : nullptr;
  if (layernorm && !layernorm->is(OpKind::layernorm))
    layernorm = nullptr; // the writer of the epilogue refuses it
  Functor input = inputFunctor(names, layernorm ? *layernorm->operand(0) : *x, layernorm);
  Expected<Functor> epilogue = epilogueFunctor(op, names, product, layernorm, *choice.family);
  if (!epilogue)
    return epilogue.takeError();
  kernel.add(input);
  kernel.add(*epilogue);

  Functor &call = kernel.call();
  ArrayRef<Dim> rowDims = ArrayRef<Dim>(product.result()->type.shape).drop_back();
  std::string rows = productText(call, rowDims), weight = call.pointer(*product.operand(1));
  std::string statement = (choice.family->body + "<Config>(" + rows + ", " + input.construction() + ", " + weight +
                           ", " + epilogue->construction() + ");")
                              .str();
  DType dtype = product.operand(1)->type.dtype;
  return kernel.finish(statement, dtype, "n" + cols + "_k" + depth, {"Input", cxxType(dtype).str()});
}

Expected<KernelText> writeTensorProduct(const Op &op, const KernelChoice &choice, KernelAssembler &kernel,
                                        const Functor &epilogue) {
  const Op &product = *anchor(op);
  MatmulProblem problem = matmulProblem(op);
  kernel.constant("kCols", problem.cols.str());
  kernel.constant("kDepth", problem.depth.str());
  kernel.add(epilogue);
  std::string rows = productText(kernel.call(), ArrayRef<Dim>(product.result()->type.shape).drop_back());
  std::string input = kernel.operand(*product.operand(0)), weight = kernel.operand(*product.operand(1));
  DType dtype = product.operand(1)->type.dtype;
  std::string type = cxxType(dtype).str();
  std::string ranks;
  if (sumsParts(op)) {
    kernel.addInboxes();
    ranks = formatv(", Exchange<{0}>{{inboxes, rank, stop}", op.parent()->function()->module().ranks()).str();
  }
  // Maps do not tell the type of their elements.
  std::string statement =
      (choice.family->body + "<Config" + (choice.family->maps ? ", " + type : "") + ">(" + rows + ", " + input + ", " +
       weight + (choice.family->workspace ? ", parts, arrivals" : "") + ", " + epilogue.construction() + ranks + ");")
          .str();
  return kernel.finish(statement, dtype, "n" + problem.cols.str() + "_k" + problem.depth.str(), type);
}

Expected<KernelText> writeTensorMatmulKernel(const Op &op, const KernelChoice &choice) {
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  if (choice.family->workspace)
    kernel.addWorkspace("float");
  const bool mails = choice.family->mailboxes && choice.family->mailboxes(op, choice.tile) > 0;
  if (mails) {
    kernel.addMailboxes();
    kernel.constant("kMails", "true");
    kernel.constant("kReadsRows", computesStatistics(op) ? "true" : "false");
  }
  Expected<Functor> epilogue = epilogueFunctor(op, names, *anchor(op), nullptr, *choice.family, mails);
  if (!epilogue)
    return epilogue.takeError();
  return writeTensorProduct(op, choice, kernel, *epilogue);
}

/// Adds the lines of a mask without positions: a vector's columns are keys, each visible or not.
static void addMask(Functor &epilogue, const Op &mask, const KernelNames &names) {
  std::string scores = names.of(*mask.operand(0)).str(), masked = names.of(*mask.result()).str();
  epilogue.add("  Vec<float, V> " + masked + "; // " + names.line(mask), &mask);
  epilogue.add("  for (int index = 0; index < V; ++index)", &mask);
  epilogue.add("    " + masked + "[index] = " + visibility(mask, "row", "col + index") + " ? " + scores +
                   "[index] : -infinity();",
               &mask);
}

/// Emits the scales and the mask that a region applies to a head's product. Returns the final value. Error: another op.
static Expected<const Value *> addBatchedOps(Functor &epilogue, const Op &op, const KernelNames &names) {
  const Op &product = *anchor(op);
  const Value *value = product.result();
  for (const auto &inner : op.region()->ops()) {
    if (inner.get() == &product || inner->has(Trait::Terminator))
      continue;
    bool isMask = inner->is(OpKind::causalMask) && !inner->operandOrNull(1);
    if (!(isMask || inner->is(OpKind::scale)) || inner->operand(0) != value)
      return opError(*inner, "expected scale, or causal_mask without positions, behind the product of a head");
    std::string operand = names.of(*value).str();
    value = inner->result();
    if (isMask)
      addMask(epilogue, *inner, names);
    else
      epilogue.add("  const auto " + names.of(*value) + " = " + inner->def().deviceExpression(*inner, {operand}) +
                       "; // " + names.line(*inner),
                   inner.get());
  }
  return value;
}

/// Writes the ops on a head's product, and the store of the kernel's results.
static Expected<Functor> batchedEpilogue(const Op &op, const KernelNames &names) {
  const Value &product = *anchor(op)->result();
  Functor epilogue("Epilogue", names);
  std::string rows = epilogue.extent(product.type.shape[2]), cols = epilogue.extent(product.type.lastDim());
  std::string value = op.region() ? names.of(product).str() : "value";
  epilogue.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + value + ", int row, int col) const {");
  const Value *out = op.result();
  if (op.region()) {
    Expected<const Value *> last = addBatchedOps(epilogue, op, names);
    if (!last)
      return last.takeError();
    out = *last;
    value = names.of(*out).str();
  }
  epilogue.add("  store(" + epilogue.pointer(*out, true) + " + (i64(blockIndexZ()) * " + rows + " + row) * " + cols +
                   " + col, " + value + ");" + (op.region() ? "" : " // " + names.line(op)),
               op.region() ? nullptr : &op);
  epilogue.add("}");
  return epilogue;
}

static Functor batchedInput(const Value &a, const KernelNames &names) {
  Functor input("Input", names);
  std::string rows = input.extent(a.type.shape[2]), depth = input.extent(a.type.lastDim());
  input.add("static constexpr bool kNormalizes = false;");
  input.add("template <int V> KILN_DEVICE Vec<float, V> load(int row, int depth) const {");
  input.add("  return kiln::load<V>(" + input.pointer(a) + " + (i64(blockIndexZ()) * " + rows + " + row) * " + depth +
            " + depth);");
  input.add("}");
  return input;
}

Expected<KernelText> writeBatchedKernel(const Op &op, const KernelChoice &choice) {
  const Op &product = *anchor(op);
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const Value &a = *product.operand(0), &b = *product.operand(1), &out = *product.result();
  bool isQk = product.is(OpKind::qk);
  auto constantOr0 = [](const Dim &dim) { return dim.asConstant().value_or(0); };
  kernel.constant("kCols", Twine(constantOr0(out.type.lastDim())));
  kernel.constant("kDepth", Twine(constantOr0(a.type.lastDim())));
  kernel.constant("kWeightTransposed", isQk ? "true" : "false");
  if (op.region())
    kernel.constant("kFillAboveDiagonal", "true");
  Functor input = batchedInput(a, names);
  Expected<Functor> epilogue = batchedEpilogue(op, names);
  if (!epilogue)
    return epilogue.takeError();
  kernel.add(input);
  kernel.add(*epilogue);
  Functor &call = kernel.call();
  std::string rows = call.extent(out.type.shape[2]), cols = call.extent(out.type.lastDim());
  std::string depth = call.extent(a.type.lastDim());
  std::string operand = call.pointer(b) + " + i64(blockIndexZ()) * " + call.extent(b.type.shape[2]) + " * " +
                        call.extent(b.type.lastDim());
  std::string statement = (choice.family->body + "<Config>(" + rows + ", " + cols + ", " + depth + ", " +
                           input.construction() + ", " + operand + ", " + epilogue->construction() + ");")
                              .str();
  int64_t headSize = *(isQk ? a : out).type.lastDim().asConstant();
  return kernel.finish(statement, b.type.dtype, "hs" + Twine(headSize), {"Input", cxxType(b.type.dtype).str()});
}

} // namespace kiln
