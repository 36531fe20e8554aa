// Row-wise kernels (layernorm, softmax) and element-wise ones (map).
#include "codegen/KernelText.h"
#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "ops/Region.h"

namespace kiln {

/// The product of all extents but the last, as an int expression of members of `functor`.
static std::string rowsText(Functor &functor, const Type &type) {
  std::vector<std::string> factors;
  for (const Dim &dim : ArrayRef<Dim>(type.shape).drop_back())
    if (!(dim == Dim(1)))
      factors.push_back(functor.extent(dim));
  return factors.empty() ? "1" : llvm::join(factors, " * ");
}

/// The expression that applies the weight of a normalisation, operand `first`, and the bias, the next one, if there are
/// any, to be appended to a normalised value.
static std::string appliedParameters(Functor &functor, const Op &norm, unsigned first) {
  static constexpr StringRef operators[] = {" * ", " + "};
  std::string text;
  for (auto [sign, parameter] : llvm::zip(operators, norm.operands().drop_front(first)))
    text += (sign + "kiln::load<V>(" + functor.pointer(*parameter) + " + col)").str();
  return text;
}

//===----------------------------------------------------------------------===//
// layernorm
//===----------------------------------------------------------------------===//

/// The addition that a fused layernorm normalises, or null. Error: another op in the region.
static Expected<const Op *> addBefore(const Op &op, const Op &norm) {
  const Op *add = nullptr;
  if (op.region())
    for (const auto &inner : op.region()->ops()) {
      if (inner->is(OpKind::add) && norm.operand(0) == inner->result())
        add = inner.get();
      else if (inner.get() != &norm && !inner->has(Trait::Terminator))
        return opError(*inner, "expected a layernorm and the add that it normalises, and nothing else");
    }
  return add;
}

Expected<KernelText> writeLayerNormKernel(const Op &op, const KernelChoice &choice) {
  const Op &norm = *anchor(op);
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const Value &x = *norm.operand(0), &out = *norm.result();
  std::string width = x.type.lastDim().str(), normed = names.of(out).str();
  kernel.constant("kCols", width);
  Expected<const Op *> add = addBefore(op, norm);
  if (!add)
    return add.takeError();

  Functor input("Input", names);
  auto setting = choice.tile.find("streaming");
  bool isStreaming = setting != choice.tile.end() && setting->second.asBool();
  std::string load = isStreaming ? "kiln::loadStreaming<V>(" : "kiln::load<V>(";
  std::string store = isStreaming ? "storeStreaming(" : "store(";
  auto row = [&](const Value &value) {
    return load + input.pointer(value) + (value.type.rank() > 1 ? " + i64(row) * " + width : "") + " + col)";
  };
  input.add("static constexpr float kEps = " + norm.attribute("eps")->str() + "f;");
  input.add("template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {");
  if (*add) {
    std::string value = (*add)->def().deviceExpression(**add, {row(*(*add)->operand(0)), row(*(*add)->operand(1))});
    input.add("  const auto value = " + value + "; // " + names.line(**add), *add);
    if (llvm::is_contained(op.region()->terminator()->operands(), &x))
      input.add("  " + store + input.pointer(x, true) + " + i64(row) * " + width + " + col, value);");
    input.add("  return value;");
  } else {
    input.add("  return " + row(x) + ";");
  }
  input.add("}");
  input.add(
      "template <int V> KILN_DEVICE Vec<float, V> normalize(Vec<float, V> value, RowStatistics s, int col) const {");
  input.add("  return (value - s.mean) * s.rstd" + appliedParameters(input, norm, 1) + ";");
  input.add("}");

  Functor epilogue("Epilogue", names);
  epilogue.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> value, int row, int col) const {");
  epilogue.add("  " + store + epilogue.pointer(out, true) + " + i64(row) * " + width + " + col, value); // " +
                   names.line(norm),
               &norm);
  epilogue.add("}");
  kernel.add(input);
  kernel.add(epilogue);
  std::string statement = choice.family->body.str() + "<Config>(" + rowsText(kernel.call(), x.type) + ", " +
                          input.construction() + ", " + epilogue.construction() + ");";
  return kernel.finish(statement, x.type.dtype, "n" + width);
}

//===----------------------------------------------------------------------===//
// row_mean, row_rstd
//===----------------------------------------------------------------------===//

Expected<KernelText> writeRowStatisticsKernel(const Op &op, const KernelChoice &choice) {
  const Op &mean = *op.region()->ops().front(), &rstd = *mean.next();
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const Value &x = *mean.operand(0);
  std::string width = x.type.lastDim().str();
  kernel.constant("kCols", width);
  Functor input("Input", names), epilogue("Epilogue", names);
  input.add("static constexpr float kEps = " + rstd.attribute("eps")->str() + "f;");
  input.add("template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {");
  input.add("  return kiln::load<V>(" + input.pointer(x) + " + i64(row) * " + width + " + col);");
  input.add("}");
  epilogue.add("KILN_DEVICE void operator()(RowStatistics s, int row) const {");
  for (auto [part, member] : {std::pair(&mean, "mean"), std::pair(&rstd, "rstd")})
    epilogue.add("  " + epilogue.pointer(*part->result(), true) + "[row] = s." + member + "; // " + names.line(*part),
                 part);
  epilogue.add("}");
  kernel.add(input);
  kernel.add(epilogue);
  std::string statement = choice.family->body.str() + "<Config>(" + rowsText(kernel.call(), x.type) + ", " +
                          input.construction() + ", " + epilogue.construction() + ");";
  return kernel.finish(statement, x.type.dtype, "n" + width);
}

Expected<KernelText> writeRowReductionKernel(const Op &op, const KernelChoice &choice) {
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const Value &x = *op.operand(0), &out = *op.result();
  std::string width = x.type.lastDim().str();
  kernel.constant("kCols", width);
  bool isMean = op.is(OpKind::rowMean);
  Functor input("Input", names), epilogue("Epilogue", names);
  input.add("KILN_DEVICE float operator()(int row, int col) const {");
  std::string element = "toFloat(" + input.pointer(x) + "[i64(row) * " + width + " + col])";
  if (isMean) {
    input.add("  return " + element + ";");
  } else {
    input.add("  const float deviation = " + element + " - " + input.pointer(*op.operand(1)) + "[row];");
    input.add("  return deviation * deviation;");
  }
  input.add("}");
  std::string mean = "sum / " + width + ".0f";
  epilogue.add("KILN_DEVICE void operator()(float sum, int row) const {");
  epilogue.add("  " + epilogue.pointer(out, true) +
                   "[row] = " + (isMean ? mean : "kiln::rsqrt(" + mean + " + " + op.attribute("eps")->str() + "f)") +
                   "; // " + names.line(op),
               &op);
  epilogue.add("}");
  kernel.add(input);
  kernel.add(epilogue);
  std::string statement =
      choice.family->body.str() + "<Config>(" + input.construction() + ", " + epilogue.construction() + ");";
  return kernel.finish(statement, x.type.dtype, "n" + width);
}

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

Expected<KernelText> writeSoftmaxKernel(const Op &op, const KernelChoice &choice) {
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const Value &x = *op.operand(0), &out = *op.result();
  Functor input("Input", names), epilogue("Epilogue", names);
  std::string cols = input.extent(x.type.lastDim());
  input.add("template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {");
  input.add("  return kiln::load<V>(" + input.pointer(x) + " + i64(row) * " + cols + " + col);");
  input.add("}");
  cols = epilogue.extent(x.type.lastDim());
  epilogue.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> value, int row, int col) const {");
  epilogue.add(
      "  store(" + epilogue.pointer(out, true) + " + i64(row) * " + cols + " + col, value); // " + names.line(op), &op);
  epilogue.add("}");
  kernel.add(input);
  kernel.add(epilogue);
  Functor &call = kernel.call();
  std::string rows = rowsText(call, x.type), extent = call.extent(x.type.lastDim());
  std::string statement = choice.family->body.str() + "<Config>(" + rows + ", " + extent + ", " + input.construction() +
                          ", " + epilogue.construction() + ");";
  return kernel.finish(statement, x.type.dtype, "h" + (x.type.rank() == 4 ? x.type.shape[1].str() : "1"));
}

//===----------------------------------------------------------------------===//
// map
//===----------------------------------------------------------------------===//

EmbeddedPlaces embeddedPlaces(Functor &functor, const Op &embed, StringRef token, StringRef position) {
  auto place = [&](const Value &table, StringRef index) {
    return functor.pointer(table) + " + i64(" + index.str() + ") * " + table.type.lastDim().str() + " + col";
  };
  std::string ofToken = place(*embed.operand(1), token);
  return {std::move(ofToken), place(*embed.operand(2), position)};
}

std::string embeddedSum(Functor &functor, const Op &embed, StringRef token, StringRef position, StringRef width) {
  const EmbeddedPlaces at = embeddedPlaces(functor, embed, token, position);
  const std::string load = ("kiln::load<" + width + ">(").str();
  return load + at.token + ") + " + load + at.position + ")";
}

std::string firstOfShare(Functor &functor, int64_t size, int64_t ranks) {
  const std::string rank = functor.rank();
  return rank + " * " + std::to_string(size / ranks) + " + min(" + rank + ", " + std::to_string(size % ranks) + ")";
}

std::string countOfShare(Functor &functor, int64_t size, int64_t ranks) {
  return std::to_string(size / ranks) + " + (" + functor.rank() + " < " + std::to_string(size % ranks) + ")";
}

std::string leadingIndices(Functor &functor, const Type &type) {
  std::string tokens = functor.extent(type.shape[type.rank() - 2]);
  if (type.rank() == 3)
    return "const int b = row / " + tokens + ", t = row % " + tokens + ";";
  std::string heads = functor.extent(type.shape[1]);
  return "const int t = row % " + tokens + ", h = row / " + tokens + " % " + heads + ", b = row / " + tokens + " / " +
         heads + ";";
}

namespace {

/// Writes the body of a map kernel for one op. The index counts the elements of walkedValue, row by row.
class MapWriter {
public:
  MapWriter(const Op &op, const KernelNames &names) : op(op), names(names), body("Body", names) {}

  Expected<Functor> write() {
    Expected<std::vector<CodeLine>> lines = linesOf();
    if (!lines)
      return lines.takeError();
    body.add("template <int V> KILN_DEVICE void operator()(i64 index) const {");
    std::string width = body.extent(walkedValue(op).type.lastDim());
    body.add("  const int row = int(index / " + width + "), col = int(index % " + width + ");");
    for (const CodeLine &line : *lines)
      body.add(CodeLine("  " + line.text, line.ops));
    body.add("}");
    return body;
  }

private:
  Expected<std::vector<CodeLine>> linesOf() {
    if (op.is(OpKind::embed))
      return embedLines();
    if (op.is(OpKind::lastRow))
      return lastRowLines();
    if (op.is(OpKind::causalMask))
      return maskLines();
    return op.is(OpKind::normalize) ? normalizeLines() : plainLines();
  }

  std::string variable() const { return names.of(*op.result()).str(); }

  std::vector<CodeLine> storeRow(const std::string &value) {
    const Type &type = op.result()->type;
    return {{"const auto value = " + value + "; // " + names.line(op), &op},
            {"store(" + body.pointer(*op.result(), true) + " + i64(row) * " + body.extent(type.lastDim()) +
             " + col, value);"}};
  }

  std::vector<CodeLine> embedLines() {
    const Value &tokens = *op.operand(0);
    std::string count = body.extent(tokens.type.shape[1]);
    bool isOneToken = tokens.type.shape[1] == Dim(1);
    std::string position = isOneToken ? "0" : "row % " + count;
    if (Value *positions = op.operandOrNull(3)) {
      std::string first = body.pointer(*positions) + (isOneToken ? "[row]" : "[row / " + count + "]");
      position = isOneToken ? first : first + " + " + position;
    }
    std::vector<CodeLine> lines = {{"const int position = " + position + ";"}};
    llvm::append_range(lines, storeRow(embeddedSum(body, op, body.pointer(tokens) + "[row]", "position", "V")));
    return lines;
  }

  std::vector<CodeLine> lastRowLines() {
    const Value &x = *op.operand(0);
    const unsigned rank = x.type.rank();
    std::string width = x.type.lastDim().str(), tokens = body.extent(x.type.shape[rank - 2]);
    std::string sequence = rank == 3 ? "[row]" : "[row / " + body.extent(x.type.shape[1]) + "]";
    return storeRow("kiln::load<V>(" + body.pointer(x) + " + (i64(row) * " + tokens + " + " +
                    body.pointer(*op.operand(1)) + sequence + " - 1) * " + width + " + col)");
  }

  std::vector<CodeLine> maskLines() {
    const Value &scores = *op.operand(0);
    std::string queries = body.extent(scores.type.shape[2]), heads = body.extent(scores.type.shape[1]);
    std::string keys = body.extent(scores.type.lastDim()), position = "row % " + queries;
    if (Value *positions = op.operandOrNull(1))
      position =
          body.pointer(*positions) + "[row / (" + heads + " * " + queries + ")]" + offsetText(op) + " + " + position;
    std::vector<CodeLine> lines = {{"const int position = " + position + ";"}};
    llvm::append_range(lines, storeRow(visibility(op, "position", "col") + " ? kiln::load<V>(" + body.pointer(scores) +
                                       " + i64(row) * " + keys + " + col) : Vec<float, V>::fill(-infinity())"));
    return lines;
  }

  std::vector<CodeLine> normalizeLines() {
    const Value &x = *op.operand(0);
    auto statistic = [&](unsigned i) { return body.pointer(*op.operand(i)) + "[row]"; };
    return storeRow("(kiln::load<V>(" + body.pointer(x) + " + index) - " + statistic(1) + ") * " + statistic(2) +
                    appliedParameters(body, op, 3));
  }

  /// Writes pointwise and layout ops, by their records.
  Expected<std::vector<CodeLine>> plainLines() {
    const Value &from = walkedValue(op);
    EpilogueEmitter emitter(body, names, op, 0);
    Coordinates at = coordinates(from.type);
    std::string source = "kiln::load<V>(" + body.pointer(from) + " + " + elementOffset(body, at, from.type) + ")";
    // The pointer already has the value's name.
    std::string variable = names.of(from).str() + "_value";
    emitter.begin(from, at, variable);
    if (Error error = emitter.emit(op))
      return error;
    std::vector<CodeLine> lines;
    if (emitter.usesBatchAndToken() && from.type.rank() >= 3)
      lines.push_back({leadingIndices(body, from.type)});
    lines.push_back({"const auto " + variable + " = " + source + ";"});
    llvm::append_range(lines, emitter.text());
    return lines;
  }

  static Coordinates coordinates(const Type &type) {
    Coordinates at;
    at.row = "row";
    if (type.rank() == 4)
      at.index = {"b", "h", "t", "col"};
    else if (type.rank() == 3)
      at.index = {"b", "t", "col"};
    else if (type.rank() == 2)
      at.index = {"row", "col"};
    else
      at.index = {"col"};
    return at;
  }

  const Op &op;
  const KernelNames &names;
  Functor body;
};

} // namespace

Expected<KernelText> writeMapKernel(const Op &op, const KernelChoice &choice) {
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  MapWriter writer(op, names);
  Expected<Functor> body = writer.write();
  if (!body)
    return body.takeError();
  kernel.add(*body);
  Functor &call = kernel.call();
  const Type &type = walkedValue(op).type;
  std::string rows = rowsText(call, type);
  std::string count = "i64(" + rows + ") * " + call.extent(type.lastDim());
  std::string statement = choice.family->body.str() + "<Config>(" + count + ", " + body->construction() + ");";
  std::string width = type.lastDim().asConstant() ? "n" + type.lastDim().str() : "";
  return kernel.finish(statement, op.result()->type.dtype, width);
}

} // namespace kiln
