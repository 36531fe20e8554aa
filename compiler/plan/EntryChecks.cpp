#include "plan/EntryChecks.h"

namespace kiln {

namespace {

class EntryChecker {
public:
  EntryChecker(const Plan &plan, Place root) : plan(plan), entries(plan.entries), root(root), place(root["entries"]) {}

  Error check() {
    if (Error error = checkDims())
      return error;
    if (Error error = checkStates())
      return error;
    batch = Expr::name(entries.batch);
    tokens = Expr::name(entries.tokens);
    if (entries.prefill)
      if (Error error = checkPrefill())
        return error;
    if (entries.decode)
      if (Error error = checkDecode())
        return error;
    if (entries.verify)
      if (Error error = checkVerify())
        return error;
    if (entries.score)
      if (Error error = checkScore())
        return error;
    if (entries.sample)
      if (Error error = checkSample())
        return error;
    if (entries.generate)
      if (Error error = checkGenerate())
        return error;
    return checkSpeculation();
  }

private:
  Error checkDims() const {
    for (auto [key, name] : {std::pair("batch", &entries.batch), std::pair("tokens", &entries.tokens)}) {
      const PlanDim *dim = plan.findDim(*name);
      if (!dim)
        return place[key].fail("expected a dim of the plan, got '" + *name + "'");
      if (dim->min != 1)
        return root["dims"][*name].fail("expected a lower bound of 1, got " + Twine(dim->min));
    }
    if (plan.dims.size() != 2)
      return root["dims"].fail("expected the dims of batch and tokens alone, got " + Twine(plan.dims.size()));
    if (entries.batch == entries.tokens)
      return place["tokens"].fail("expected another dim than that of the batch, got '" + entries.tokens + "'");
    if (int64_t most = plan.findDim(entries.tokens)->max; most < plan.model.context)
      return root["dims"][entries.tokens].fail("expected an upper bound of at least the context, " +
                                               Twine(plan.model.context) + ", got " + Twine(most));
    return Error::success();
  }

  /// Checks that a sequence's share of a state is contiguous and of a constant size.
  Error checkStates() const {
    for (const auto &[i, state] : llvm::enumerate(plan.states)) {
      auto isConstant = [](const Expr &extent) { return extent.asConstant().has_value(); };
      if (state.shape.empty() || state.shape.front() != Expr::name(entries.batch) ||
          !llvm::all_of(ArrayRef<Expr>(state.shape).drop_front(), isConstant))
        return root["states"][i]["shape"].fail("expected " + entries.batch +
                                               " first, then numbers: each sequence has a share of a state");
    }
    return Error::success();
  }

  /// Prepares the checks of one entry. Error: the plan has no function of that name, or one with other arguments.
  Error begin(Entry entry) {
    where = place[entryName(entry)];
    function = plan.findFunction(entryName(entry));
    return function ? Error::success() : where.fail("the plan has no function of this name");
  }

  Error begin(Entry entry, size_t arguments) {
    if (Error error = begin(entry))
      return error;
    if (function->arguments.size() != arguments)
      return where.fail("expected a function of " + Twine(arguments) + " arguments, got " +
                        Twine(function->arguments.size()));
    return Error::success();
  }

  static std::string typeText(DType dtype, ArrayRef<Expr> shape) {
    return (dtypeName(dtype) + "[" +
            llvm::join(llvm::map_range(shape, [](const Expr &extent) { return extent.str(); }), ",") + "]")
        .str();
  }

  Error checkArgument(StringRef key, StringRef name, DType dtype, SmallVector<Expr, 4> shape) const {
    auto argument = llvm::find_if(function->arguments, [&](const PlanTensor &other) { return other.name == name; });
    if (argument == function->arguments.end())
      return where[key].fail("expected an argument of @" + function->name + ", got '" + name + "'");
    if (argument->dtype != dtype || argument->shape != shape)
      return where[key].fail("expected an argument of type " + typeText(dtype, shape) + ", got '" + name +
                             "' of type " + typeText(argument->dtype, argument->shape));
    return Error::success();
  }

  /// The buffer of the function's result number `index`, which the entry calls `name`.
  Expected<const PlanTensor *> findResult(StringRef key, StringRef name, size_t index) const {
    static constexpr StringRef ordinals[] = {"first", "second", "third"};
    if (function->results.size() <= index || function->results[index] != name)
      return where[key].fail("expected the " + ordinals[index] + " result of @" + function->name + ", got '" + name +
                             "'");
    auto buffer = llvm::find_if(function->buffers, [&](const PlanBuffer &other) { return other.tensor.name == name; });
    if (buffer == function->buffers.end())
      return where[key].fail("expected a buffer of @" + function->name + ", got '" + name + "'");
    return &buffer->tensor;
  }

  /// Checks a result with a number for each token.
  Error checkResult(StringRef key, StringRef name, size_t index, DType dtype) const {
    Expected<const PlanTensor *> tensor = findResult(key, name, index);
    if (!tensor)
      return tensor.takeError();
    SmallVector<Expr, 4> shape = {batch, tokens};
    if ((*tensor)->dtype != dtype || (*tensor)->shape != shape)
      return where[key].fail("expected a result of type " + typeText(dtype, shape) + ", got '" + name + "' of type " +
                             typeText((*tensor)->dtype, (*tensor)->shape));
    return Error::success();
  }

  /// Checks logits: floats [B,rows,vocabulary], the first result.
  Error checkLogits(StringRef name, const Expr &rows = Expr(1)) const {
    Expected<const PlanTensor *> found = findResult("logits", name, 0);
    if (!found)
      return found.takeError();
    const PlanTensor &tensor = **found;
    SmallVector<Expr, 4> shape = {batch, rows, Expr(plan.model.vocabulary)};
    // @sample reads them as f32.
    bool isRead = tensor.dtype == DType::F32 || (tensor.dtype != DType::I32 && !entries.sample);
    if (!isRead || tensor.shape != shape)
      return where["logits"].fail("expected logits " + typeText(DType::F32, shape) + ", a row for each of the " +
                                  Twine(plan.model.vocabulary) + " tokens of the vocabulary, got " +
                                  typeText(tensor.dtype, tensor.shape));
    return Error::success();
  }

  Error checkPrefill() {
    if (Error error = begin(Entry::Prefill, 2))
      return error;
    if (Error error = checkArgument("tokens", entries.prefill->tokens, DType::I32, {batch, tokens}))
      return error;
    if (Error error = checkArgument("lengths", entries.prefill->lengths, DType::I32, {batch}))
      return error;
    return checkLogits(entries.prefill->logits);
  }

  Error checkDecode() {
    if (Error error = begin(Entry::Decode, 2))
      return error;
    if (Error error = checkArgument("tokens", entries.decode->tokens, DType::I32, {batch, Expr(1)}))
      return error;
    if (Error error = checkArgument("positions", entries.decode->positions, DType::I32, {batch}))
      return error;
    return checkLogits(entries.decode->logits);
  }

  Error checkVerify() {
    if (!entries.decode)
      return place["verify"].fail("expected entry decode beside it");
    if (Error error = begin(Entry::Verify, 2))
      return error;
    const PlanTensor &ids = function->arguments.front();
    std::optional<int64_t> count = ids.shape.size() == 2 ? ids.shape[1].asConstant() : std::nullopt;
    if (!count || *count < 2 || *count > plan.model.context)
      return where["tokens"].fail("expected an argument of type " + typeText(DType::I32, {batch, Expr::name("K")}) +
                                  " with a number K from 2 to the context, got " + typeText(ids.dtype, ids.shape));
    if (Error error = checkArgument("tokens", entries.verify->tokens, DType::I32, {batch, Expr(*count)}))
      return error;
    if (Error error = checkArgument("positions", entries.verify->positions, DType::I32, {batch}))
      return error;
    return checkLogits(entries.verify->logits, Expr(*count));
  }

  Error checkScore() {
    const ScoreEntry &score = *entries.score;
    if (Error error = begin(Entry::Score, 2))
      return error;
    for (auto [key, name] : {std::pair("tokens", &score.tokens), {"targets", &score.targets}})
      if (Error error = checkArgument(key, *name, DType::I32, {batch, tokens}))
        return error;
    if (Error error = checkResult("log_probabilities", score.logProbabilities, 0, DType::F32))
      return error;
    if (Error error = checkResult("best_tokens", score.bestTokens, 1, DType::I32))
      return error;
    return checkResult("best_log_probabilities", score.bestLogProbabilities, 2, DType::F32);
  }

  Error checkSample() {
    const SampleEntry &sample = *entries.sample;
    if (!entries.prefill || !entries.decode)
      return place["sample"].fail("expected entries prefill and decode beside it");
    if (Error error = begin(Entry::Sample))
      return error;
    if (Error error = checkArgument("logits", sample.logits, DType::F32, {batch, Expr(plan.model.vocabulary)}))
      return error;
    if (Error error = checkArgument("tokens", sample.tokens, DType::I32, {batch, Expr(1)}))
      return error;
    if (Error error = checkArgument("positions", sample.positions, DType::I32, {batch}))
      return error;
    SampleEntry names = sample;
    return checkSharedArguments(namesOf(names));
  }

  /// Checks that @generate has the arguments of @sample, and scratch.
  Error checkGenerate() {
    if (!entries.sample)
      return place["generate"].fail("expected an entry sample beside it");
    if (Error error = begin(Entry::Generate))
      return error;
    if (Error error =
            checkArgument("logits", entries.generate->logits, DType::F32, {batch, Expr(plan.model.vocabulary)}))
      return error;
    SampleEntry names = *entries.sample;
    return checkSharedArguments(namesOf(names));
  }

  /// Checks the functions that speculation needs beside @verify.
  Error checkSpeculation() {
    std::vector<std::pair<Entry, EntryNames>> present;
    PlanEntries copy = entries;
    copy.forEach([&](Entry entry, auto &names) {
      if (names && llvm::is_contained(speculationEntries, entry))
        present.emplace_back(entry, namesOf(*names));
    });
    for (const auto &[entry, names] : present)
      if (Error error = checkSpeculation(entry, names))
        return error;
    return Error::success();
  }

  Error checkSpeculation(Entry entry, const EntryNames &names) {
    if (!entries.verify || !entries.sample)
      return place[entryName(entry)].fail("expected entries verify and sample beside it");
    if (Error error = begin(entry))
      return error;
    Expr count(plan.verifyTokens());
    for (auto [key, name] : names) {
      Error error = Error::success();
      if (key == "logits")
        error = checkArgument(key, *name, DType::F32, {batch, count, Expr(plan.model.vocabulary)});
      else if (key == "guesses")
        error = checkArgument(key, *name, DType::I32, {batch, count});
      else if (key == "starts")
        error = checkArgument(key, *name, DType::I32, {batch});
      else if (key == "odds")
        error = checkArgument(key, *name, DType::I32, {batch, Expr(2)});
      if (error)
        return error;
    }
    return checkSharedArguments(names);
  }

  /// Checks the arguments of a function that works on the state of a generation, some of which have these names.
  Error checkSharedArguments(const EntryNames &names) {
    for (const PlanTensor &argument : function->arguments)
      if (Error error = checkSharedArgument(argument))
        return error;
    for (auto [key, name] : names)
      if (llvm::none_of(function->arguments, [name = name](const PlanTensor &other) { return other.name == *name; }))
        return where[key].fail("expected an argument of @" + function->name + ", got '" + *name + "'");
    return Error::success();
  }

  /// Checks that an argument has a part for each row, and the type of other functions' arguments of the same name,
  /// which are the same memory. Logits stay where they were written.
  Error checkSharedArgument(const PlanTensor &argument) {
    ArrayRef<Expr> shape = argument.shape;
    auto fail = [&](const Twine &what) { return where.fail("argument '" + argument.name + "': expected " + what); };
    if (shape.empty() || shape.front() != batch)
      return fail(entries.batch + " first, got " + typeText(argument.dtype, shape));
    if (!llvm::all_of(shape.drop_front(), [](const Expr &extent) { return extent.asConstant().has_value(); }))
      return fail("a size that no dim but the batch changes, got " + typeText(argument.dtype, shape));
    auto [other, isNew] = shared.try_emplace(argument.name, &argument);
    bool isSame = isNew || argument.name == entries.sample->logits ||
                  (other->second->dtype == argument.dtype && other->second->shape == argument.shape);
    return isSame ? Error::success()
                  : fail("type " + typeText(other->second->dtype, other->second->shape) +
                         ", which another function has for it, got " + typeText(argument.dtype, shape));
  }

  const Plan &plan;
  const PlanEntries &entries;
  Place root, place;
  Place where = place;
  const PlanFunction *function = nullptr;
  Expr batch, tokens;
  std::map<StringRef, const PlanTensor *> shared; ///< arguments of functions that work on the state of a generation
};

} // namespace

Error checkEntries(const Plan &plan, Place root) {
  return plan.entries.empty() ? Error::success() : EntryChecker(plan, root).check();
}

} // namespace kiln
