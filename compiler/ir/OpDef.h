//===- OpDef.h - the record of an op ----------------------------------------===//
//
// Printer, parser, builder, verifier, evaluator, code generator and documentation all read this one record. The
// records themselves live in ops/, one per line of Ops.def.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Attribute.h"
#include "ir/Type.h"

namespace kiln {

class Op;
class Value;
template <class Real> struct EvalArgs;
struct Coordinates;

enum class OpKind : uint8_t {
#define KILN_OP(identifier, mnemonic) identifier,
#include "ir/Ops.def"
};

using ElementCount = function_ref<Expr(const Value &)>;

/// Properties by which passes and code generation handle ops of any kind.
enum class Trait : unsigned {
  None = 0,
  Terminator = 1 << 0,
  /// Result element i depends on element i of operand 0 (and on a broadcast of the others).
  Pointwise = 1 << 1,
  /// Moves elements without computing: result coordinates follow from operand coordinates.
  Layout = 1 << 2,
  /// Each row of the result (all but the last dim) depends on the same row of operand 0 only.
  RowWise = 1 << 3,
  /// A sum of products: matmul, qk, pv.
  Contraction = 1 << 4,
  /// Writes a state; its result is the state's new value, in the same memory.
  WritesState = 1 << 5,
  /// Operands 0 and 1 may be swapped when their types agree.
  Commutative = 1 << 6,
  /// Reads operand 0 of all ranks; its result is the same on all of them.
  Exchange = 1 << 7,
};
constexpr Trait operator|(Trait a, Trait b) {
  return static_cast<Trait>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

struct OperandSpec {
  StringRef name;
  StringRef doc;
  bool isOptional = false; ///< no operand that is not follows one that is
  bool isState = false;
  bool isOfRow = false; ///< one element for each row of operand 0
};

struct AttributeSpec {
  StringRef name;
  Attribute::Kind kind;
  StringRef doc;
  bool isRequired = true;
  /// The names that an Ident may have; empty: any.
  SmallVector<StringRef, 2> choices = {};
  /// The kind of a List's elements; none: any kind.
  std::optional<Attribute::Kind> elements = std::nullopt;
  /// The minimum and the maximum of an Int.
  int64_t least = INT64_MIN, most = INT64_MAX;
};

/// A name that model configurations (`activation_function`) use for an op, and the attributes that it implies.
struct ActivationName {
  StringRef name;
  AttributeMap attributes = {};
};

struct OpDef {
  OpKind kind;
  StringRef mnemonic;
  StringRef summary; ///< one sentence, with the formula and its source
  Trait traits = Trait::None;
  SmallVector<OperandSpec, 4> operands = {};
  SmallVector<AttributeSpec, 4> attributes = {};

  /// The result's type, or an error in operands or attributes (counts, kinds and names have already been checked). Null
  /// for ops without exactly one result: fused, yield, return.
  Expected<Type> (*infer)(const Op &op) = nullptr;

  /// Ops whose result depends on the rank or on other ranks: describes what is wrong in a module of so many ranks (1:
  /// of none). Empty: nothing is wrong.
  std::string (*rankProblem)(const Op &op, int64_t ranks) = nullptr;

  /// Computes the result on the CPU. Types have been verified; extents are the concrete ones.
  Error (*evaluateF32)(EvalArgs<float> &args) = nullptr;
  Error (*evaluateF64)(EvalArgs<double> &args) = nullptr;

  /// Floating-point operations (a fused multiply-add counts two), given a function for the number of a value's elements
  /// that count: all of them, or only those that are used.
  Expr (*flops)(const Op &op, ElementCount elements) = nullptr;

  /// Pointwise ops of one operand that can be a model's activation function: their names in model configurations.
  std::vector<ActivationName> activationNames = {};

  /// Ops whose result element i follows from element i of operand 0 and elements of the others, and that have a form in
  /// C++: the expression of the result, given expressions for the operands at one element. The kernel's values get
  /// names that differ from the words in it.
  std::string (*deviceExpression)(const Op &op, ArrayRef<std::string> operands) = nullptr;

  /// Layout ops: turns coordinates of operand 0's element (of the state's new rows' source for a state write) into
  /// coordinates of the result's, adding guards for elements that are not in the result.
  void (*mapCoordinates)(const Op &op, Coordinates &coordinates) = nullptr;

  /// Short name for use in names of fused regions, where the mnemonic is too general ("bias", "residual").
  StringRef (*label)(const Op &op) = nullptr;

  bool has(Trait trait) const { return static_cast<unsigned>(traits) & static_cast<unsigned>(trait); }
};

/// Every record by kind; made by ops/OpTable.cpp and passed to the code that turns text into ops.
class OpTable {
public:
  explicit OpTable(std::vector<const OpDef *> records) : records(std::move(records)) {}

  const OpDef &operator[](OpKind kind) const { return *records[static_cast<size_t>(kind)]; }
  const OpDef *find(StringRef mnemonic) const;
  ArrayRef<const OpDef *> all() const { return records; }

private:
  std::vector<const OpDef *> records;
};

/// Attributes that later stages put on any op of a function's body.
ArrayRef<AttributeSpec> commonAttributes();

/// Attributes of a module: the front end's description of the model, how to run the plan, the target for which kernels
/// were chosen. Names that are used in several places are in ModuleAttribute.
ArrayRef<AttributeSpec> moduleAttributes();
/// Attributes of a function.
ArrayRef<AttributeSpec> functionAttributes();

struct ModuleAttribute {
  // Properties of the model.
  static constexpr StringRef context = "context", eos = "eos", layers = "layers", vocab = "vocab";
  // The dims of a call: sequences, and tokens of each.
  static constexpr StringRef batch = "batch", tokens = "tokens";
  // How the plan is run (Plan::stepByStep, weightsFirst, serial), and how its kernels take tensors.
  static constexpr StringRef stepByStep = "step_by_step", weightsFirst = "weights_first", serial = "serial",
                             restrictPointers = "restrict";
  // Kernels run on every target of the plan, not only on the one that they are chosen for.
  static constexpr StringRef portable = "portable";
  // Among how many GPUs tensors are split; written by shard-tensors.
  static constexpr StringRef ranks = "ranks";
  static constexpr StringRef strategy = "strategy";
  // Up to so many rows of @decode, and any number of prompts, a row's bits do not depend on the rows beside it; 1: they
  // may. Written by choose-tiles.
  static constexpr StringRef batchInvariant = "batch_invariant";
  // Written by select-kernels.
  static constexpr StringRef target = "target", kernels = "kernels";
};

struct FunctionAttribute {
  // The most sequences of a call; written by form-persistent-kernel.
  static constexpr StringRef sequences = "sequences";
};

/// The spec with this name, or null.
const AttributeSpec *findSpec(ArrayRef<AttributeSpec> specs, StringRef name);
/// Describes what is wrong with the attribute: no spec has its name, or its value does not fit the spec. Empty: nothing
/// is wrong.
std::string attributeProblem(ArrayRef<AttributeSpec> specs, StringRef name, const Attribute &value);

} // namespace kiln
