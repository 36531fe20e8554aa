#include "codegen/FindEntries.h"

namespace kiln {

namespace {

class EntryFinder {
public:
  explicit EntryFinder(const Module &module)
      : module(module), batch(module.batchDim()), tokens(module.tokensDim()),
        vocabulary(module.intAttribute("vocab", 1)) {}

  PlanEntries find() {
    bool hasDims = batch && tokens && module.dims.size() == 2 && batch->min == 1 && tokens->min == 1;
    if (!hasDims || !llvm::all_of(module.states, [&](const auto &state) { return isDivided(*state); }))
      return {};
    const Type ids(DType::I32, {Dim(batch), Dim(tokens)}), perRow(DType::I32, {Dim(batch)}),
        next(DType::I32, {Dim(batch), 1});
    PlanEntries entries;
    if (const Function *function = findFunction(Entry::Prefill, {ids, perRow}, 1))
      entries.prefill = {argument(*function, 0), argument(*function, 1), logits(*function)};
    if (const Function *function = findFunction(Entry::Decode, {next, perRow}, 1))
      entries.decode = {argument(*function, 0), argument(*function, 1), logits(*function)};
    if (const Function *function = findFunction(Entry::Score, {ids}, Dim(tokens)))
      entries.score = {argument(*function, 0), logits(*function)};
    if (!entries.empty()) {
      entries.batch = batch->name;
      entries.tokens = tokens->name;
    }
    return entries;
  }

private:
  bool isDivided(const Value &state) const {
    ArrayRef<Dim> shape = state.type.shape;
    return shape.front() == Dim(batch) &&
           llvm::all_of(shape.drop_front(), [](const Dim &dim) { return dim.asConstant().has_value(); });
  }

  /// The function of the entry with these arguments, if its first result is logits with `rows` rows per sequence; or
  /// null.
  const Function *findFunction(Entry entry, ArrayRef<Type> arguments, Dim rows) const {
    const Function *function = module.findFunction(entry);
    if (!function || function->arguments.size() != arguments.size() || function->resultTypes.empty())
      return nullptr;
    for (auto [argument, type] : llvm::zip(function->arguments, arguments))
      if (!(argument->type == type))
        return nullptr;
    const Type &result = function->resultTypes.front();
    bool isLogits = result.dtype != DType::I32 &&
                    ArrayRef<Dim>(result.shape) == ArrayRef<Dim>({Dim(batch), rows, Dim(vocabulary)}) &&
                    function->body.terminator()->operand(0)->definingOp();
    return isLogits ? function : nullptr;
  }

  static std::string argument(const Function &function, size_t i) { return function.arguments[i]->name; }
  static std::string logits(const Function &function) { return function.body.terminator()->operand(0)->name; }

  const Module &module;
  const DimSymbol *batch, *tokens;
  int64_t vocabulary;
};

} // namespace

PlanEntries findEntries(const Module &module) { return EntryFinder(module).find(); }

} // namespace kiln
