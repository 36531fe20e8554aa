#include "codegen/Functor.h"

#include "ir/Verifier.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

void EpilogueEmitter::begin(const Value &value, Coordinates at, StringRef variable) {
  at.elementOf = [this](const Value &operand, StringRef index) {
    std::string text = elementText(operand, index);
    return readsAhead ? loadAhead(operand, {"int", {}, text, index != "row"}) : text;
  };
  Place place{variable.empty() ? names.of(value).str() : variable.str(), std::move(at)};
  storeIfYielded(value, place, nullptr);
  places[&value] = std::move(place);
}

/// The operand whose elements an op transforms or moves.
static const Value &sourceOf(const Op &op) { return *op.operand(op.has(Trait::WritesState) ? 1 : 0); }

bool EpilogueEmitter::isInMemory(const Value &value) const {
  return !value.definingOp() || value.definingOp()->parentOp() != &kernelOp;
}

/// Emits an op that computes a statistic of rows in memory.
Error EpilogueEmitter::emitStatistic(const Op &op) {
  const Value &x = *op.operand(0);
  if (!readsAhead || rowVectors == 0 || !isInMemory(x) || !x.type.lastDim().asConstant() ||
      (op.is(OpKind::rowRstd) && isInMemory(*op.operand(1))))
    return opError(op, "expected statistics of rows that lie in memory, and a kernel that computes them");
  std::string pointer = functor.pointer(x), row = pointer + "_of_row", width = x.type.lastDim().str();
  if (rowInMemory && rowInMemory->name != row)
    return opError(op, "expected statistics of the rows of one tensor");
  std::string element = cxxType(x.type.dtype).str();
  rowInMemory = {formatv("RowOfWarp<{0}, {1}, {2}>", element, width, rowVectors).str(), element,
                 pointer + " + i64(row) * " + width, row};
  std::string text = op.is(OpKind::rowMean)
                         ? ".mean()"
                         : ".rstd(" + names.of(*op.operand(1)).str() + ", " + op.attribute("eps")->str() + "f)";
  rowLines.push_back(
      {("  const float " + names.of(*op.result()) + " = " + row + text + "; // " + names.line(op)).str(), &op});
  return Error::success();
}

/// Emits an op that merges statistics of groups of columns.
Error EpilogueEmitter::emitOfRow(const Op &op) {
  auto isGroups = [&](const Value &value) { return value.type.dtype == DType::F32 && isInMemory(value); };
  bool merges = op.is(OpKind::mergedRstd);
  if (!readsAhead || !isGroups(*op.operand(0)) || (merges && !isGroups(*op.operand(1))) ||
      op.intAttribute("size", groupColumns) != groupColumns)
    return opError(op, "expected statistics of groups of 8 columns that lie in memory, and a kernel that merges them");
  std::string name = names.of(*op.result()).str(), text = "meanOfGroups(" + groupsOfRow(*op.operand(0)) + ")";
  if (merges) {
    const Value &mean = *op.operand(2);
    std::string center = isGroups(mean) ? functor.pointer(mean) + "[row]" : names.of(mean).str();
    text = "rstdOfGroups(" + groupsOfRow(*op.operand(0)) + ", " + groupsOfRow(*op.operand(1)) + ", " + center + ", " +
           op.attribute("eps")->str() + "f)";
  }
  rowLines.push_back({"  const float " + name + " = " + text + "; // " + names.line(op), &op});
  return Error::success();
}

std::string EpilogueEmitter::groupsOfRow(const Value &groups) {
  std::string pointer = functor.pointer(groups), name = pointer + "_of_row", count = groups.type.lastDim().str();
  std::string line =
      "  const LaneGroups<" + count + ", kLanes> " + name + "(" + pointer + " + i64(row) * " + count + ");";
  auto loads = [&](const CodeLine &other) { return other.text == line; };
  // All loads come first, so that none waits for what is computed from another.
  if (llvm::none_of(rowLines, loads))
    rowLines.insert(rowLines.begin() + rowLoads++, {line, nullptr});
  return name;
}

/// Emits an op that makes statistics of groups of columns.
Error EpilogueEmitter::emitGroups(const Op &op) {
  const Value &value = *op.operand(0);
  auto place = places.find(&value);
  int64_t cols = value.type.lastDim().asConstant().value_or(0), groups = *op.result()->type.lastDim().asConstant();
  if (!makesGroups || place == places.end() || place->second.at.row.empty() || cols != groups * groupColumns ||
      (groupedValue && groupedValue != &value) || !kernelResult(*op.result()))
    return opError(op, "expected groups of 8 columns of one value that the kernel stores by rows, and that are stored");
  groupedValue = &value;
  std::string member = op.is(OpKind::groupMean) ? "mean" : "squares";
  groupLines.push_back({"  " + functor.pointer(*op.result(), /*writes=*/true) + "[i64(row) * " +
                            std::to_string(groups) + " + index] = s." + member + "; // " + names.line(op),
                        &op});
  return Error::success();
}

/// Emits an op that computes a statistic of whole rows of the kernel's results.
Error EpilogueEmitter::emitStatisticOfResult(const Op &op) {
  const Value &value = *op.operand(0), &result = *op.result();
  auto place = places.find(&value);
  if (place == places.end() || place->second.at.row.empty() || !kernelResult(value) || !kernelResult(result) ||
      (summarisedValue && summarisedValue != &value))
    return opError(op, "expected statistics of rows of one value that the kernel stores by rows, and that are stored");
  summarisedValue = &value;
  if (op.is(OpKind::rowRstd))
    epsilon = op.attribute("eps")->str();
  statisticLines.push_back({"  store(" + functor.pointer(result, /*writes=*/true) + " + row, Vec<float, 1>{s." +
                                (op.is(OpKind::rowMean) ? "mean" : "rstd") + "}); // " + names.line(op),
                            &op});
  return Error::success();
}

Error EpilogueEmitter::emit(const Op &op) {
  if (makesRows && (op.is(OpKind::rowMean) || op.is(OpKind::rowRstd)))
    return emitStatisticOfResult(op);
  if (op.is(OpKind::rowRstd) || (op.is(OpKind::rowMean) && dtypeSize(op.operand(0)->type.dtype) == 2))
    return emitStatistic(op);
  if (op.is(OpKind::rowMean) || op.is(OpKind::mergedRstd))
    return emitOfRow(op);
  if (op.is(OpKind::groupMean) || op.is(OpKind::groupSquares))
    return emitGroups(op);
  if (op.is(OpKind::lastRow) && isInMemory(*op.operand(0)) && op.result()->type.rank() == 3) {
    selections[op.result()] = &op;
    addLine("// " + names.line(op), &op);
    return Error::success();
  }
  bool isPointwise = op.def().deviceExpression;
  if (!isPointwise && !(op.has(Trait::Layout) && op.def().mapCoordinates))
    return opError(op, "expected a pointwise or layout op behind what the kernel computes");
  if (Error error = checkOperands(op))
    return error;
  const Place from = places.find(&sourceOf(op))->second;
  if (isPointwise)
    emitPointwise(op, from);
  else
    emitLayout(op, from);
  return Error::success();
}

/// Checks that the op's elements are declared, and that other operands are declared or in memory.
Error EpilogueEmitter::checkOperands(const Op &op) const {
  const Op *producer = sourceOf(op).definingOp();
  if (op.has(Trait::Pointwise) && producer && producer != &op && producer->is(OpKind::cast))
    return opError(op, "expected nothing computed behind cast, which rounds where the kernel stores");
  for (const auto &[operand, spec] : llvm::zip(op.operands(), op.def().operands)) {
    bool isOfRegion = !spec.isOfRow && operand->definingOp() && operand->definingOp()->parentOp() == &kernelOp;
    if (!places.count(operand) && !selections.count(operand) && (operand == &sourceOf(op) || isOfRegion))
      return opError(op,
                     "expected operands that the kernel has when it has computed its product, got %" + operand->name);
  }
  bool readsRows = llvm::any_of(op.def().operands, [](const OperandSpec &spec) { return spec.isOfRow; });
  if (readsRows && places.find(&sourceOf(op))->second.at.row.empty())
    return opError(op, "expected nothing in front of it that moves elements");
  return Error::success();
}

/// The text of another operand at the same element: a variable of the region, or a load from memory.
std::string EpilogueEmitter::operandText(const Value &operand, const Place &like) {
  if (auto it = places.find(&operand); it != places.end())
    return it->second.variable;
  auto selecting = selections.find(&operand);
  const Op *lastRow = selecting == selections.end() ? nullptr : selecting->second;
  const Value &memory = lastRow ? *lastRow->operand(0) : operand;
  std::string address =
      lastRow ? selectedAddress(*lastRow, like.at) : functor.pointer(operand) + " + " + offset(like.at, operand.type);
  std::string arguments = "<V>(" + address + ")";
  if (!readsAhead || !like.at.guards.empty())
    return "kiln::load" + arguments;
  // A packed operand takes no more registers than memory until it is used.
  std::string type = ("Packed<" + cxxType(memory.type.dtype) + ", V>").str();
  return loadAhead(
             memory,
             {type, {}, "kiln::loadPacked" + arguments, like.at.row.empty(), !lastRow && operand.type.rank() == 1}) +
         ".unpack()";
}

/// The address of the element in the row that the op selects.
std::string EpilogueEmitter::selectedAddress(const Op &lastRow, const Coordinates &at) {
  const Value &x = *lastRow.operand(0);
  Coordinates selected = at;
  selected.index[1] = elementText(*lastRow.operand(1), at.index[0]) + " - 1";
  selected.row.clear();
  return functor.pointer(x) + " + " + elementOffset(functor, selected, x.type);
}

std::string EpilogueEmitter::elementText(const Value &operand, StringRef index) {
  return (functor.pointer(operand) + "[" + index + "]").str();
}

std::string EpilogueEmitter::rowOperandText(const Value &operand) {
  bool isComputed = operand.definingOp() && operand.definingOp()->parentOp() == &kernelOp;
  std::string name = isComputed ? names.of(operand).str() : functor.pointer(operand);
  std::string load = isComputed ? name : name + "[row]";
  if (!readsAhead)
    return load;
  if (llvm::none_of(rowList, [&](const Ahead &other) { return other.name == name; }))
    rowList.push_back({cxxType(operand.type.dtype).str(), name, load});
  return "of." + name;
}

std::string EpilogueEmitter::loadAhead(const Value &operand, Ahead ahead) {
  auto isSame = [&](const Ahead &other) { return other.load == ahead.load; };
  if (auto it = llvm::find_if(aheadList, isSame); it != aheadList.end())
    return "with." + it->name;
  ahead.name = functor.pointer(operand);
  // An operand at another place gets a name of its own.
  auto isTaken = [&](const Ahead &other) { return other.name == ahead.name; };
  while (llvm::any_of(aheadList, isTaken))
    ahead.name += "_";
  aheadList.push_back(ahead);
  return "with." + ahead.name;
}

void EpilogueEmitter::emitPointwise(const Op &op, const Place &from) {
  SmallVector<std::string, 2> operands = {from.variable};
  for (unsigned i = 1; i < op.operands().size(); ++i)
    operands.push_back(op.def().operands[i].isOfRow ? rowOperandText(*op.operand(i))
                                                    : operandText(*op.operand(i), from));
  Place place{names.of(*op.result()).str(), from.at};
  addLine("const auto " + place.variable + " = " + op.def().deviceExpression(op, operands) + "; // " + names.line(op),
          &op);
  storeIfYielded(*op.result(), place, nullptr);
  places[op.result()] = std::move(place);
}

void EpilogueEmitter::emitLayout(const Op &op, const Place &from) {
  Place place = from;
  if (op.is(OpKind::splitHeads) && storesAllParts(op)) {
    place.at.part = "part";
    place.at.inPart = "column";
    if (!firstSplit)
      firstSplit = &op;
  }
  // Loaded ahead, lengths would take a register for each vector of a thread, and few threads have a last row.
  if (op.is(OpKind::lastRow))
    place.at.elementOf = [this](const Value &operand, StringRef index) { return elementText(operand, index); };
  op.def().mapCoordinates(op, place.at);
  needsBatchAndToken |= place.at.index != from.at.index;
  if (!kernelResult(*op.result()))
    addLine("// " + names.line(op), &op);
  storeIfYielded(*op.result(), place, &op);
  places[op.result()] = std::move(place);
}

/// The result of the kernel's op for a value, or null.
const Value *EpilogueEmitter::kernelResult(const Value &value) const {
  if (!kernelOp.region())
    return value.definingOp() == &kernelOp ? &value : nullptr;
  const Op *yield = kernelOp.region()->terminator();
  auto it = llvm::find(yield->operands(), &value);
  return it == yield->operands().end() ? nullptr : kernelOp.result(it - yield->operands().begin());
}

/// The tensor that a value is stored to: the new value of a state, to the state.
static const Value &memoryOf(const Value &value) {
  const Value *state = writtenState(value);
  return state ? *state : value;
}

/// `op`: the op to name in a comment at the store; null if it has lines of its own.
void EpilogueEmitter::storeIfYielded(const Value &value, const Place &place, const Op *op) {
  if (!kernelResult(value))
    return;
  const Value &memory = memoryOf(value);
  std::string comment = op ? " // " + names.line(*op) : "";
  if (!place.at.part.empty()) {
    addLine("// " + names.line(*op), op);
    partStores.push_back({&memory, op, place.at.guards.front()});
    return storeParts(place);
  }
  std::string text = "store(" + functor.pointer(memory, /*writes=*/true) + " + " + offset(place.at, memory.type) +
                     ", " + place.variable + ");";
  if (place.at.guards.empty())
    return addLine(text + comment, op);
  addLine("if (" + llvm::join(place.at.guards, " && ") + ")" + comment, op);
  addLine("  " + text, op);
}

/// The tensor that a part is stored to, if it is stored once and whole: the op's result or a cache. Else null.
const Value *EpilogueEmitter::storedPart(const Op &split) const {
  const Value &part = *split.result();
  if (!part.hasOneUse())
    return nullptr;
  const Op &user = *part.getUsers().front();
  const Value &stored = user.is(OpKind::cacheWrite) && !user.operandOrNull(2) ? *user.result() : part;
  return kernelResult(stored) ? &memoryOf(stored) : nullptr;
}

/// Whether every part of the value that the op splits is stored, all in one type and at the same coordinates. Then one
/// store to a tensor that is chosen does, and a thread with many elements takes no branches.
bool EpilogueEmitter::storesAllParts(const Op &split) const {
  const Value &whole = *split.operand(0);
  if (!kernelOp.region() || (firstSplit && firstSplit->operand(0) != &whole) ||
      !places.find(&whole)->second.at.guards.empty())
    return false;
  SmallVector<const Value *, 4> stored(split.intAttribute("parts"));
  for (const auto &op : kernelOp.region()->ops()) {
    if (!op->is(OpKind::splitHeads) || op->operand(0) != &whole)
      continue;
    if (op->intAttribute("parts") != split.intAttribute("parts") ||
        op->intAttribute("heads") != split.intAttribute("heads") || stored[op->intAttribute("part")])
      return false;
    stored[op->intAttribute("part")] = storedPart(*op);
  }
  return stored.size() > 1 && llvm::all_of(stored, [&](const Value *memory) {
           return memory && memory->type.dtype == stored.front()->type.dtype;
         });
}

/// Emits the store of the parts, when the last of them has come.
void EpilogueEmitter::storeParts(const Place &place) {
  const int64_t parts = firstSplit->intAttribute("parts");
  if (partStores.size() < static_cast<size_t>(parts))
    return;
  SmallVector<const Op *, 4> ops;
  for (const PartStore &store : partStores)
    ops.push_back(store.op);
  auto choice = [&](function_ref<std::string(const Value &)> textOf) {
    SmallVector<std::string, 4> texts;
    for (const PartStore &store : partStores)
      texts.push_back(textOf(*store.memory));
    std::string text = texts.back();
    for (const auto &[store, own] : llvm::reverse(llvm::zip(partStores, texts)))
      if (text != own)
        text = store.condition + " ? " + own + " : " + text;
    return text;
  };
  const Value &whole = *firstSplit->operand(0);
  std::string width = std::to_string(*whole.type.lastDim().asConstant() / parts);
  std::string col = places.find(&whole)->second.at.last().str();
  addLine("const int part = " + col + " / " + width + ", column = " + col + " % " + width + ";", ops);
  std::string pointers = choice([&](const Value &memory) { return functor.pointer(memory, /*writes=*/true); });
  addLine(cxxType(partStores.front().memory->type.dtype) + " *const to = " + pointers + ";", ops);
  SmallVector<std::string, 4> extents(1);
  for (size_t i = 1; i < place.at.index.size(); ++i) {
    extents.push_back(choice([&](const Value &memory) { return functor.extent(memory.type.shape[i]); }));
    if (StringRef(extents[i]).contains("?")) // caches are longer than what is written
      addLine("const int places = " + std::exchange(extents[i], "places") + ";", ops);
  }
  addLine("store(to + " + elementOffset(place.at, extents) + ", " + place.variable + ");", ops);
}

std::string EpilogueEmitter::offset(const Coordinates &at, const Type &type) {
  if (type.rank() > 1 && at.row.empty())
    needsBatchAndToken = true;
  return elementOffset(functor, at, type);
}

} // namespace kiln
