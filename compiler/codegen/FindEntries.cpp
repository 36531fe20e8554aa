#include "codegen/FindEntries.h"

#include "kernels/cost/Problem.h"
#include "kernels/families/matmul/TokenScores.h"

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
        next(DType::I32, {Dim(batch), 1}), scores(DType::F32, ids.shape);
    PlanEntries entries;
    if (const Function *function = findFunction(Entry::Prefill, {ids, perRow}); function && hasLogits(*function))
      entries.prefill = {argument(*function, 0), argument(*function, 1), result(*function, 0)};
    if (const Function *function = findFunction(Entry::Decode, {next, perRow}); function && hasLogits(*function))
      entries.decode = {argument(*function, 0), argument(*function, 1), result(*function, 0)};
    if (const Function *function = findVerify())
      entries.verify = {argument(*function, 0), argument(*function, 1), result(*function, 0)};
    if (const Function *function = findFunction(Entry::Score, {ids, ids});
        function && hasResults(*function, {scores, ids, scores}) && !otherLogits(*function, vocabulary))
      entries.score = {argument(*function, 0), argument(*function, 1), result(*function, 0), result(*function, 1),
                       result(*function, 2)};
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

  /// The function of the entry, if it has these arguments and a result; or null.
  const Function *findFunction(Entry entry, ArrayRef<Type> arguments) const {
    const Function *function = module.findFunction(entry);
    if (!function || function->arguments.size() != arguments.size() || function->resultTypes.empty())
      return nullptr;
    for (auto [argument, type] : llvm::zip(function->arguments, arguments))
      if (!(argument->type == type))
        return nullptr;
    return function;
  }

  /// @verify, if it has a fixed number of tokens and a row of logits for each; or null.
  const Function *findVerify() const {
    int64_t count = verifiedTokens(module);
    const Function *function =
        findFunction(Entry::Verify, {Type(DType::I32, {Dim(batch), Dim(count)}), Type(DType::I32, {Dim(batch)})});
    return function && hasLogits(*function, count) ? function : nullptr;
  }

  /// Whether an op computes the function's result.
  static bool isComputed(const Function &function, unsigned i) {
    return function.body.terminator()->operand(i)->definingOp();
  }

  /// Whether the first result is logits, so many rows for each sequence.
  bool hasLogits(const Function &function, int64_t rows = 1) const {
    const Type &type = function.resultTypes.front();
    return type.dtype != DType::I32 &&
           ArrayRef<Dim>(type.shape) == ArrayRef<Dim>({Dim(batch), Dim(rows), Dim(vocabulary)}) &&
           isComputed(function, 0);
  }

  /// Whether the first results have these types.
  static bool hasResults(const Function &function, ArrayRef<Type> types) {
    if (function.resultTypes.size() < types.size())
      return false;
    for (const auto &[i, type] : llvm::enumerate(types))
      if (!(function.resultTypes[i] == type) || !isComputed(function, static_cast<unsigned>(i)))
        return false;
    return true;
  }

  static std::string argument(const Function &function, size_t i) { return function.arguments[i]->name; }
  static std::string result(const Function &function, unsigned i) {
    return function.body.terminator()->operand(i)->name;
  }

  const Module &module;
  const DimSymbol *batch, *tokens;
  int64_t vocabulary;
};

} // namespace

PlanEntries findEntries(const Module &module) { return EntryFinder(module).find(); }

} // namespace kiln
