#include "ir/Verifier.h"

#include "support/Diagnostic.h"

namespace kiln {

Error opError(const Op &op, const Twine &message) {
  std::string symbol = op.symbol.empty() ? std::string() : " @" + op.symbol;
  return makeError(op.loc, op.mnemonic() + symbol + ": " + message);
}

//===----------------------------------------------------------------------===//
// One op against its record
//===----------------------------------------------------------------------===//

static Error checkAttributes(const Op &op) {
  bool mayHaveCommon = !op.parentOp() && !op.has(Trait::Terminator);
  for (const auto &[name, value] : op.attributes()) {
    ArrayRef<AttributeSpec> specs = op.def().attributes;
    if (mayHaveCommon && !findSpec(specs, name) && findSpec(commonAttributes(), name))
      specs = commonAttributes();
    if (std::string problem = attributeProblem(specs, name, value); !problem.empty())
      return opError(op, problem);
  }
  for (const AttributeSpec &spec : op.def().attributes)
    if (spec.isRequired && !op.attribute(spec.name))
      return opError(op, "missing attribute '" + spec.name + "'");
  return Error::success();
}

static Error checkOperands(const Op &op) {
  ArrayRef<OperandSpec> specs = op.def().operands;
  size_t most = specs.size(), got = op.operands().size();
  size_t least = llvm::count_if(specs, [](const OperandSpec &spec) { return !spec.isOptional; });
  if (got < least || got > most)
    return opError(op, "expected " + Twine(least) + (most > least ? " or " + Twine(most) : Twine()) +
                           (most == 1 ? " operand, got " : " operands, got ") + Twine(got));
  for (const auto &[spec, value] : llvm::zip(specs, op.operands()))
    if (spec.isState && !value->isState())
      return opError(op, "expected a state as operand '" + spec.name + "', got %" + value->name);
  return Error::success();
}

Expected<Type> inferType(const Op &op) {
  if (Error error = checkOperands(op))
    return error;
  if (Error error = checkAttributes(op))
    return error;
  return op.def().infer(op);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {

class FunctionVerifier {
public:
  explicit FunctionVerifier(const Function &function) : function(function) {}

  Error run() {
    for (const auto &weight : function.module().weights)
      visible.insert({weight->name, weight.get()});
    for (const auto &state : function.module().states)
      visible.insert({state->name, state.get()});
    for (const auto &argument : function.arguments)
      if (Error error = define(argument.get()))
        return error;
    if (function.body.empty() || !function.body.terminator()->is(OpKind::ret))
      return makeError(function.loc, "@" + function.name + ": expected a return at the end");
    if (Error error = checkBlock(function.body))
      return error;
    return checkReturn(*function.body.terminator());
  }

private:
  Error define(const Value *value) {
    auto [it, isNew] = visible.insert({value->name, value});
    if (isNew) {
      defined.push_back(value->name);
      return Error::success();
    }
    return makeError(value->loc, "%" + value->name + " is defined twice", it->second->loc, "first defined here");
  }

  Error checkBlock(const Block &block) {
    for (const auto &op : block.ops()) {
      bool isLast = op == block.ops().back();
      if (op->has(Trait::Terminator) != isLast)
        return opError(*op,
                       isLast ? "expected a terminator at the end of a block" : "expected only at the end of a block");
      if (Error error = checkUses(*op))
        return error;
      if (Error error = op->is(OpKind::fused) ? checkFused(*op) : checkPlain(*op))
        return error;
      for (const auto &result : op->results())
        if (Error error = define(result.get()))
          return error;
    }
    return Error::success();
  }

  Error checkUses(const Op &op) {
    for (const Value *value : op.operands()) {
      auto it = visible.find(value->name);
      if (it == visible.end() || it->second != value)
        return opError(op, "%" + value->name + " is used before its definition or outside its scope");
      if (value->isState() && writtenStates.contains(value))
        return opError(op, "state %" + value->name + " is used after it was written; use the write's result");
    }
    return Error::success();
  }

  Error checkPlain(const Op &op) {
    if (op.has(Trait::Terminator))
      return checkAttributes(op);
    Expected<Type> type = inferType(op);
    if (!type)
      return type.takeError();
    if (op.results().size() != 1)
      return opError(op, "expected one result, got " + Twine(op.results().size()));
    if (auto rankProblem = op.def().rankProblem)
      if (std::string problem = rankProblem(op, function.module().ranks()); !problem.empty())
        return opError(op, problem);
    if (!(op.result()->type == *type))
      return opError(op, "expected result type " + type->str() + ", got " + op.result()->type.str());
    if (op.has(Trait::WritesState))
      writtenStates.insert(op.operand(0));
    return Error::success();
  }

  Error checkFused(const Op &op) {
    if (op.parentOp())
      return opError(op, "expected no fused region inside a fused region");
    if (op.symbol.empty() || !op.region() || op.region()->empty())
      return opError(op, "expected a name and a region");
    if (Error error = checkAttributes(op))
      return error;
    size_t outside = defined.size();
    if (Error error = checkBlock(*op.region()))
      return error;
    for (; defined.size() > outside; defined.pop_back())
      visible.erase(defined.back());
    const Op *yield = op.region()->terminator();
    if (!yield->is(OpKind::yield))
      return opError(*yield, "expected yield at the end of a fused region");
    if (yield->operands().size() != op.results().size() || op.results().empty())
      return opError(*yield, "expected as many operands as the region has results (" + Twine(op.results().size()) +
                                 "), got " + Twine(yield->operands().size()));
    for (const Value *yielded : yield->operands())
      if (!yielded->definingOp() || yielded->definingOp()->parent() != op.region())
        return opError(*yield, "expected results of the region, got %" + yielded->name);
    for (const auto &[result, yielded] : llvm::zip(op.results(), yield->operands()))
      if (!(result->type == yielded->type))
        return opError(op, "expected result type " + yielded->type.str() + ", got " + result->type.str());
    return Error::success();
  }

  Error checkReturn(const Op &ret) {
    if (ret.operands().size() != function.resultTypes.size())
      return opError(ret, "expected " + Twine(function.resultTypes.size()) +
                              (function.resultTypes.size() == 1 ? " operand, got " : " operands, got ") +
                              Twine(ret.operands().size()));
    for (const auto &[type, value] : llvm::zip(function.resultTypes, ret.operands()))
      if (!(type == value->type))
        return opError(ret, "expected " + type.str() + " as @" + function.name + " declares, got " + value->type.str());
    return Error::success();
  }

  const Function &function;
  StringMap<const Value *> visible;
  std::vector<StringRef> defined; ///< names of the values that ops and arguments define, in order
  DenseSet<const Value *> writtenStates;
};

} // namespace

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

static Error checkRecipe(const Value &weight, int64_t ranks) {
  const WeightRecipe &recipe = *weight.recipe;
  auto fail = [&](const Twine &message) { return makeError(weight.loc, "weight %" + weight.name + ": " + message); };
  if (!isFloat(weight.type.dtype))
    return fail("expected a floating-point type, got " + weight.type.str());
  if (std::string problem = recipe.problem(); !problem.empty())
    return fail(problem);
  if (recipe.split && recipe.split->ranks != ranks)
    return fail("expected a split of as many ranks as the module's attribute '" + ModuleAttribute::ranks + "' (" +
                Twine(ranks) + "), got " + Twine(recipe.split->ranks));
  SmallVector<int64_t, 2> shape = recipe.unpaddedShape();
  Type packed(recipe.dtype, SmallVector<Dim, 4>(recipe.shape.begin(), recipe.shape.end()));
  bool matches = packed == weight.type && shape.size() == recipe.shape.size();
  for (size_t i = 0; matches && i < shape.size(); ++i)
    matches = recipe.pad ? shape[i] <= recipe.shape[i] : shape[i] == recipe.shape[i];
  if (!matches)
    return fail("its recipe does not give " + weight.type.str());
  return Error::success();
}

static Error checkAttributes(ArrayRef<AttributeSpec> specs, const AttributeMap &attributes, const Twine &owner,
                             Location loc) {
  for (const auto &[name, value] : attributes)
    if (std::string problem = attributeProblem(specs, name, value); !problem.empty())
      return makeError(loc, owner + ": " + problem);
  return Error::success();
}

static Error checkHead(const Module &module) {
  if (Error error = checkAttributes(moduleAttributes(), module.attributes, "module @" + module.name, module.loc))
    return error;
  // A kernel that starts early could read through __restrict__ while the previous kernel still writes.
  if (module.boolAttribute(ModuleAttribute::restrictPointers) && !module.boolAttribute(ModuleAttribute::serial))
    return makeError(module.loc, "module @" + module.name + ": attribute '" + ModuleAttribute::restrictPointers +
                                     "': expected '" + ModuleAttribute::serial + " = true' beside it");
  for (StringRef name : {ModuleAttribute::batch, ModuleAttribute::tokens})
    if (const Attribute *dim = findAttribute(module.attributes, name); dim && !module.findDim(dim->asString()))
      return makeError(module.loc,
                       "module @" + module.name + ": attribute '" + name + "': expected a dim, got " + dim->str());
  for (const auto &function : module.functions) {
    if (Error error = checkAttributes(functionAttributes(), function->attributes, "@" + function->name, function->loc))
      return error;
    // Plans have such a limit of this function only: others would have kernels for fewer sequences than calls have.
    if (findAttribute(function->attributes, FunctionAttribute::sequences) &&
        findEntry(function->name) != Entry::Generate)
      return makeError(function->loc, "@" + function->name + ": attribute '" + FunctionAttribute::sequences +
                                          "': expected only on @" + entryName(Entry::Generate));
  }
  return Error::success();
}

static Error checkGlobals(const Module &module) {
  StringMap<Location> names;
  auto define = [&](StringRef sigil, StringRef name, Location loc) -> Error {
    auto [it, isNew] = names.insert({(sigil + name).str(), loc});
    return isNew ? Error::success()
                 : makeError(loc, sigil + name + " is defined twice", it->second, "first defined here");
  };
  for (const auto &dim : module.dims) {
    if (Error error = define("", dim->name, dim->loc))
      return error;
    if (dim->name == pastTokens)
      return makeError(dim->loc, "dim " + dim->name + ": formulas of costs have another meaning for this name");
    if (dim->min < 1 || dim->max < dim->min)
      return makeError(dim->loc, "dim " + dim->name + ": expected bounds 1 <= low <= high, got " + Twine(dim->min) +
                                     ".." + Twine(dim->max));
  }
  for (const auto &weight : module.weights) {
    if (Error error = define("%", weight->name, weight->loc))
      return error;
    if (Error error = checkRecipe(*weight, module.ranks()))
      return error;
  }
  for (const auto &state : module.states)
    if (Error error = define("%", state->name, state->loc))
      return error;
  for (const auto &function : module.functions)
    if (Error error = define("@", function->name, function->loc))
      return error;
  return Error::success();
}

Error verify(const Module &module) {
  if (Error error = checkHead(module))
    return error;
  if (Error error = checkGlobals(module))
    return error;
  Error all = Error::success();
  for (const auto &function : module.functions)
    all = llvm::joinErrors(std::move(all), FunctionVerifier(*function).run());
  return all;
}

} // namespace kiln
