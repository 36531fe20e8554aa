//===- Functor.h - the small structs of a generated kernel ------------------===//
//
// A generated kernel hands a template functors: how an operand is read, what happens to a result. Each is a struct
// whose members are the kernel's parameters that it uses, and whose body has one line per IR op.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"
#include "kernels/families/KernelFamily.h"
#include "ops/DeviceForm.h"

namespace kiln {

/// C++ names of the dims and of the values of one op.
class KernelNames {
public:
  /// Names inputs, results and values of the region: the SSA name without its layer, made unique; of a plain op, the
  /// names of its record's operands. `more`: words of this form of kernel that no value may have as its name.
  KernelNames(const Op &op, const KernelFamily &family, ArrayRef<StringRef> more = {});

  /// `ln_1_w` for `%ln_1_w.3`.
  StringRef of(const Value &value) const { return names.find(&value)->second; }
  /// The parameter that holds a dim's extent.
  StringRef of(const DimSymbol &dim) const { return dims.find(&dim)->second; }
  /// The parameter that holds its address: `x` of an input, `act_out` of a result, whose elements are `act`.
  std::string pointerTo(const Value &value) const;
  /// The parameter that is a tensor map of an input: `x_map`.
  std::string mapOf(const Value &value) const { return of(value).str() + "_map"; }

  /// Whether the kernel holds the value in constant memory, in an array with the parameter's name.
  bool isConstant(const Value &value) const { return constants.count(&value); }

  /// The op in these names, which are the same for every layer: `add %fc_mm, %fc_b`.
  std::string operation(const Op &op) const;
  /// Its line of IR: `%fc = add %fc_mm, %fc_b`.
  std::string line(const Op &op) const { return ("%" + of(*op.result()) + " = " + operation(op)).str(); }

private:
  void add(const Value &value, StringRef hint);
  /// A name like the hint that is free, as it is and with each of these behind it, and now is taken.
  std::string takeName(StringRef hint, ArrayRef<StringRef> suffixes);
  bool isComputedHere(const Value &value) const;

  const Op &op;
  DenseMap<const Value *, std::string> names;
  DenseMap<const DimSymbol *, std::string> dims;
  DenseSet<const Value *> constants;
  StringSet<> taken;
};

/// A line of generated code.
struct CodeLine {
  std::string text;
  SmallVector<const Op *, 1> ops; ///< that it computes; none: none by itself

  CodeLine(std::string text, ArrayRef<const Op *> ops) : text(std::move(text)), ops(ops) {}
  /// One op, or none if it is null.
  CodeLine(std::string text, const Op *op = nullptr) : text(std::move(text)) {
    if (op)
      ops.push_back(op);
  }
};

/// Declares itself and is constructed from kernel parameters.
class Functor {
public:
  Functor(StringRef structName, const KernelNames &names) : structName(structName), names(names) {}

  /// The member that holds a tensor's address, or the array that holds the tensor; `writes` makes it mutable.
  std::string pointer(const Value &value, bool writes = false);
  /// The member that holds a tensor's addresses in the memory of so many ranks; pointer() then means it.
  std::string pointersOfRanks(const Value &value, int64_t ranks, bool writes = false);
  /// The member that is a tensor map. Only for the functor of a call: a map must stay a parameter.
  std::string map(const Value &value);
  /// A dim's extent: a constant, or the member that holds it.
  std::string extent(const Dim &dim);
  /// A line of the struct's body, and the op that it computes: the plan records the lines of each op.
  void add(const Twine &line, const Op *op = nullptr) { lines.emplace_back(line.str(), op); }
  void add(ArrayRef<CodeLine> more) { llvm::append_range(lines, more); }
  /// The member that is the number of this rank.
  std::string rank();
  /// The member that is the kernel's mailboxes.
  std::string mail();
  /// Adds the members of a functor that was built only for its text.
  void addMembersOf(const Functor &other);

  /// The whole declaration.
  std::vector<CodeLine> declaration() const;
  /// `Epilogue{fc_b, act}`
  std::string construction() const;

  struct Member {
    std::string type, name;
    const Value *value = nullptr; ///< null for a dim and what is of no tensor
    bool writes = false, isMap = false;
    int64_t ranks = 1;              ///< addresses of a tensor, one of each rank
    const DimSymbol *dim = nullptr; ///< whose extent it is
  };
  ArrayRef<Member> members() const { return memberList; }

private:
  void addMember(Member member);

  StringRef structName;
  const KernelNames &names;
  std::vector<Member> memberList;
  std::vector<CodeLine> lines;
};

/// `float`, `bf16`, `f16`, `int`: the storage type in generated code.
StringRef cxxType(DType dtype);

/// The flat index of an element as a C++ expression: `i64(row) * 768 + col`. Extents: those of a tensor, of which that
/// of dim 0 is not used.
std::string elementOffset(const Coordinates &at, ArrayRef<std::string> extents);
std::string elementOffset(Functor &functor, const Coordinates &at, const Type &type);

/// Emits pointwise and layout ops on a value that a template hands over, and the stores of what the kernel's op yields.
class EpilogueEmitter {
public:
  /// `indent`: of the emitted lines.
  EpilogueEmitter(Functor &functor, const KernelNames &names, const Op &kernelOp, unsigned indent)
      : functor(functor), names(names), kernelOp(kernelOp), indent(indent) {}

  /// The operands that the emitted lines read from memory, if they are loaded ahead: `with.NAME` in the lines.
  struct Ahead {
    std::string type, name, load;
    bool usesBatchAndToken = false; ///< of the load
    bool isOfColumns = false;       ///< the same in all rows
  };
  /// The operands of which a row has one element: `of.NAME` in the lines, where operands are loaded ahead.
  ArrayRef<Ahead> aheadOfRow() const { return rowList; }
  /// Lines that compute elements of rows, from statistics of groups of columns or from whole rows.
  ArrayRef<CodeLine> rowText() const { return rowLines; }
  /// Whole rows from which they compute: their type in generated code, that of elements, the address of row `row`, and
  /// the variable that stands for a row. Null: they compute from groups of columns or only load.
  struct Row {
    std::string type, element, address, name;
  };
  const Row *readsRows() const { return rowInMemory ? &*rowInMemory : nullptr; }
  /// The lanes that do so together, for kernels whose blocks share the results.
  int rowLanes() const { return rowInMemory ? 32 : 8; }
  /// The kernel computes statistics of rows, a lane so many vectors at a time.
  void computeStatistics(int64_t vectorsAtOnce) { rowVectors = vectorsAtOnce; }
  /// The value whose statistics by groups of columns the kernel hands out, or null; and the lines that store them.
  const Value *grouped() const { return groupedValue; }
  ArrayRef<CodeLine> groupText() const { return groupLines; }
  /// The kernel hands out statistics of groups of columns, whose lines are groupText().
  void makeGroups() { makesGroups = true; }
  /// The kernel computes the statistics of whole rows of its results: those of this value, or null; the lines that
  /// store them, and the constant that is added to variances.
  void makeRowStatistics() { makesRows = true; }
  const Value *summarised() const { return summarisedValue; }
  ArrayRef<CodeLine> statisticText() const { return statisticLines; }
  std::string epsilonOfRows() const { return epsilon; }
  /// From now on the operands of unguarded elements are loaded ahead, and the kernel may hand out such statistics.
  void readAhead() { readsAhead = makesGroups = true; }
  ArrayRef<Ahead> ahead() const { return aheadList; }

  /// Declares the coordinates of `value`, which is held by the variable of its name, or by `variable`.
  void begin(const Value &value, Coordinates at, StringRef variable = {});
  /// Emits one op on values that are declared; its result is declared then. Error: it is neither pointwise nor layout,
  /// or needs what is not declared.
  Error emit(const Op &op);
  /// Whether coordinates other than the flat row were used, so that batch and token must be computed.
  bool usesBatchAndToken() const { return needsBatchAndToken; }
  ArrayRef<CodeLine> text() const { return lines; }

private:
  struct Place {
    std::string variable;
    Coordinates at;
  };
  /// A tensor that a part of a value is stored to, and when.
  struct PartStore {
    const Value *memory;
    const Op *op; ///< that stores it
    std::string condition;
  };

  Error checkOperands(const Op &op) const;
  Error emitOfRow(const Op &op);
  Error emitStatistic(const Op &op);
  Error emitStatisticOfResult(const Op &op);
  /// The variable with a lane's groups of a row, which is loaded in front of all that is computed from groups.
  std::string groupsOfRow(const Value &groups);
  bool isInMemory(const Value &value) const;
  Error emitGroups(const Op &op);
  void emitPointwise(const Op &op, const Place &from);
  void emitLayout(const Op &op, const Place &from);
  void storeIfYielded(const Value &value, const Place &place, const Op *op);
  bool storesAllParts(const Op &split) const;
  const Value *storedPart(const Op &split) const;
  void storeParts(const Place &place);
  const Value *kernelResult(const Value &value) const;
  std::string operandText(const Value &operand, const Place &like);
  std::string selectedAddress(const Op &lastRow, const Coordinates &at);
  std::string elementText(const Value &operand, StringRef index);
  std::string rowOperandText(const Value &operand);
  std::string loadAhead(const Value &operand, Ahead ahead);
  std::string offset(const Coordinates &at, const Type &type);
  void addLine(const Twine &line, const Op *op = nullptr) {
    lines.emplace_back((Twine(std::string(indent, ' ')) + line).str(), op);
  }
  void addLine(const Twine &line, ArrayRef<const Op *> ops) {
    lines.emplace_back((Twine(std::string(indent, ' ')) + line).str(), ops);
  }

  Functor &functor;
  const KernelNames &names;
  const Op &kernelOp;
  unsigned indent;
  bool needsBatchAndToken = false, readsAhead = false, makesGroups = false, makesRows = false;
  std::optional<Row> rowInMemory;
  std::vector<Ahead> aheadList, rowList;
  DenseMap<const Value *, Place> places;
  DenseMap<const Value *, const Op *> selections; ///< operands that are rows of values in memory, and what selects them
  std::vector<CodeLine> lines, rowLines, groupLines, statisticLines;
  size_t rowLoads = 0; ///< the first of rowLines
  int64_t rowVectors = 0;
  const Value *groupedValue = nullptr, *summarisedValue = nullptr;
  std::string epsilon;
  const Op *firstSplit = nullptr;    ///< of a value whose parts are stored by one store
  std::vector<PartStore> partStores; ///< so far
};

} // namespace kiln
