// shard-tensors: splits a model among several GPUs, by the scheme of Megatron-LM (Shoeybi et al. 2019).
//
//   weight %w : f32[768,3072] = "w"                  weight %w : f32[768,1536] = "w"[768,3072] -> split columns ranks 2
//   weight %b : f32[3072]     = "b"                  weight %b : f32[1536]     = "b"[3072] -> split columns ranks 2
//   weight %v : f32[3072,768] = "v"                  weight %v : f32[1536,768] = "v"[3072,768] -> split rows ranks 2
//   %mm  = matmul %x, %w : f32[B,T,3072]             %mm  = matmul %x, %w : f32[B,T,1536]
//   %h   = add %mm, %b   : f32[B,T,3072]       ->    %h   = add %mm, %b   : f32[B,T,1536]
//   %a   = gelu %h       : f32[B,T,3072]             %a   = gelu %h       : f32[B,T,1536]
//   %p   = matmul %a, %v : f32[B,T,768]              %q   = matmul %a, %v : f32[B,T,768]
//   %y   = add %p, %c    : f32[B,T,768]              %p   = all_reduce %q : f32[B,T,768]
//                                                    %y   = add %p, %c    : f32[B,T,768]
//
// One module is for all ranks: only what a weight's recipe takes of the checkpoint depends on the rank. The pass walks
// over each function's ops in order. A product of a value that all ranks have takes the columns of a rank's share:
// whole heads, if split_heads reads the result. The result is split, as is what pointwise ops and attention make of it,
// and the biases that they add. A product of such a value takes the rows of the share, and its result is a part of a
// sum: all_reduce adds up the parts, and only then is the bias added, once. Anything else that reads a split value,
// such as the function's result, reads it through all_gather. Embeddings read a table of their own, which all ranks
// have whole: to ask others for rows takes longer than a layer of a small model.
//
// option ranks: how many GPUs; 1 leaves the module alone. Extents that the ranks do not divide get room for the largest
// share on all ranks (RankSplit), filled up with zeros.
//
// Refuses: products that are no wider than there are ranks, or of a matrix that is no weight, stay whole. Error: fewer
// heads than ranks; a weight that ops would have to read in different shares; a module with states, fused regions,
// ranks, or recipes with steps: the pass comes before those that make them.
#include "ir/Builder.h"
#include "ir/Verifier.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

/// How a value is split: not at all, or a dimension of the extent `size`.
struct ValueSplit {
  unsigned dim;
  int64_t size;
  RankSplit split;

  bool operator==(const ValueSplit &) const = default;
};

class Sharder {
public:
  Sharder(Module &module, int64_t ranks) : module(module), ranks(ranks) {}

  Error run() {
    if (Error error = checkModule())
      return error;
    separateTables();
    for (const auto &function : module.functions)
      if (Error error = shard(*function))
        return error;
    if (Error error = checkReaders())
      return error;
    for (const auto &function : module.functions)
      if (Error error = refreshTypes(function->body))
        return error;
    module.attributes.insert_or_assign(ModuleAttribute::ranks.str(), ranks);
    return Error::success();
  }

private:
  Error checkModule() const;
  void separateTables();
  Error checkReaders() const;
  Error shard(Function &function);
  Error shardOp(Op &op);
  Error shardMatmul(Op &op);
  Error shardAdd(Op &op);
  Error shardHeads(Op &op);
  Error gatherOperands(Op &op);

  Expected<std::optional<RankSplit>> columnsOf(const Op &matmul) const;
  Error splitWeight(const Op &reader, unsigned operand, RankSplit split);
  Expected<Value *> gathered(Value &value, const Op &reader);
  void reduce(Op &op);

  const ValueSplit *find(const Value *value) const {
    auto it = splits.find(value);
    return it == splits.end() ? nullptr : &it->second;
  }

  Module &module;
  int64_t ranks;
  DenseMap<const Value *, ValueSplit> splits;
  DenseMap<const Value *, Value *> whole;                    ///< of a split value, what all_gather made of it
  DenseSet<std::pair<const Op *, const Value *>> shareReads; ///< of weights, by ops that read a share
  std::optional<TakenNames> names;                           ///< of the function at hand
};

Error Sharder::checkModule() const {
  auto fail = [](Location loc, const Twine &what) { return makeError(loc, "shard-tensors: expected " + what); };
  if (module.ranks() > 1)
    return fail(module.loc, "a module that is not split, got one of " + Twine(module.ranks()) + " ranks");
  if (!module.states.empty())
    return fail(module.states.front()->loc, "a module without states; run it before insert-kv-cache");
  for (const auto &weight : module.weights)
    if (weight->recipe->hasSteps() || weight->recipe->sourceShape != weight->recipe->shape)
      return fail(weight->loc, "recipes without steps, got one with a step for %" + weight->name +
                                   "; run it before the passes that fold and pack weights");
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops())
      if (op->region())
        return opError(*op, "shard-tensors: expected no fused region; run it before the passes that fuse");
  return Error::success();
}

/// Checks that no op reads a whole weight of which others read shares.
Error Sharder::checkReaders() const {
  for (const auto &weight : module.weights)
    for (const Op *user : weight->getUsers()) // listed once per use
      if (weight->recipe->split &&
          (!shareReads.contains({user, weight.get()}) || llvm::count(user->operands(), weight.get()) > 1))
        return opError(*user, "shard-tensors: expected every reader of %" + weight->name +
                                  " to take a rank's share, but this needs all of it");
  return Error::success();
}

Error Sharder::shard(Function &function) {
  names.emplace(function);
  for (Op *op : function.body.snapshot())
    if (Error error = shardOp(*op))
      return error;
  return Error::success();
}

Error Sharder::shardOp(Op &op) {
  switch (op.kind()) {
  case OpKind::matmul:
    return shardMatmul(op);
  case OpKind::add:
    return shardAdd(op);
  case OpKind::splitHeads:
  case OpKind::mergeHeads:
  case OpKind::qk:
  case OpKind::pv:
  case OpKind::causalMask:
  case OpKind::softmax:
    return shardHeads(op);
  default:
    break;
  }
  bool isPointwise = op.has(Trait::Pointwise) && op.operands().size() == 1;
  if (const ValueSplit *split = isPointwise ? find(op.operand(0)) : nullptr) {
    splits.try_emplace(op.result(), ValueSplit(*split));
    return Error::success();
  }
  return gatherOperands(op);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Gives the op a rank's share of a weight in place of all of it. Error: others read another share.
Error Sharder::splitWeight(const Op &reader, unsigned operand, RankSplit split) {
  Value &weight = *reader.operand(operand);
  WeightRecipe &recipe = *weight.recipe;
  shareReads.insert({&reader, &weight});
  if (recipe.split && !(*recipe.split == split))
    return opError(reader, "shard-tensors: expected all readers of %" + weight.name + " to take the same share of it");
  if (recipe.split)
    return Error::success();
  recipe.split = split;
  recipe.shape = recipe.unpaddedShape();
  weight.type.shape.assign(recipe.shape.begin(), recipe.shape.end());
  return Error::success();
}

/// The extents of a weight in the checkpoint: those of its type may be a share's.
ArrayRef<int64_t> sourceShape(const Value &weight) { return weight.recipe->sourceShape; }

/// Gives embeddings a table of their own where products read it, too, of which a rank takes a share.
void Sharder::separateTables() {
  TakenNames weightNames(module);
  for (size_t i = 0, count = module.weights.size(); i < count; ++i) {
    Value *weight = module.weights[i].get();
    SmallVector<Op *, 4> embeds, others;
    for (Op *user : weight->getUsers())
      (user->is(OpKind::embed) && user->operand(1) == weight ? embeds : others).push_back(user);
    if (embeds.empty() || others.empty())
      continue;
    Value *table = module.addWeight(weightNames.unique(withEnding(weight->name, "_table")), weight->type,
                                    *weight->recipe, weight->loc);
    for (Op *embed : embeds)
      embed->setOperand(1, table);
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The ops that read a value, or what pointwise ops make of it.
void collectReaders(const Value &value, SmallVectorImpl<const Op *> &readers) {
  for (const Op *user : value.getUsers())
    if (user->has(Trait::Pointwise) && user->operand(0) == &value)
      collectReaders(*user->result(), readers);
    else
      readers.push_back(user);
}

/// How to deal out the columns of a product. None: they stay whole. Error: fewer heads than ranks.
Expected<std::optional<RankSplit>> Sharder::columnsOf(const Op &matmul) const {
  const Value &weight = *matmul.operand(1);
  if (!weight.isWeight())
    return std::nullopt;
  bool isTransposed = matmul.boolAttribute("transpose_b");
  int64_t columns = sourceShape(weight)[isTransposed ? 0 : 1];
  RankSplit split = {.ranks = ranks, .ofRows = isTransposed};
  SmallVector<const Op *, 8> readers;
  collectReaders(*matmul.result(), readers);
  auto isOf = [&](OpKind kind) { return [=](const Op *op) { return op->is(kind); }; };
  auto isLikeFirst = [&](const Op *op) {
    return op->is(OpKind::splitHeads) && op->intAttribute("heads") == readers[0]->intAttribute("heads") &&
           op->intAttribute("parts") == readers[0]->intAttribute("parts");
  };
  if (!readers.empty() && llvm::all_of(readers, isLikeFirst)) {
    int64_t heads = readers[0]->intAttribute("heads");
    split.parts = readers[0]->intAttribute("parts");
    split.unit = columns / split.parts / heads;
    if (heads < ranks)
      return opError(*readers[0], "shard-tensors: expected at most as many ranks as heads (" + Twine(heads) +
                                      "), got " + Twine(ranks));
    return split;
  }
  // Rows of whole vectors are faster to read.
  constexpr int64_t vector = 8;
  if (!readers.empty() && llvm::all_of(readers, isOf(OpKind::matmul)) && columns % vector == 0 &&
      columns / vector >= ranks)
    split.unit = vector;
  return columns < ranks ? std::nullopt : std::optional(split);
}

Error Sharder::shardMatmul(Op &op) {
  const Value &weight = *op.operand(1);
  const ValueSplit *x = find(op.operand(0));
  bool isLast = x && x->dim + 1 == op.operand(0)->type.rank();
  if (isLast && x->split.parts == 1 && weight.isWeight()) {
    if (Error error =
            splitWeight(op, 1, {.ranks = ranks, .ofRows = !op.boolAttribute("transpose_b"), .unit = x->split.unit}))
      return error;
    reduce(op);
    return Error::success();
  }
  if (Error error = gatherOperands(op))
    return error;
  Expected<std::optional<RankSplit>> columns = columnsOf(op);
  if (!columns)
    return columns.takeError();
  if (!*columns)
    return Error::success();
  int64_t size = sourceShape(weight)[(*columns)->ofRows ? 0 : 1];
  RankSplit split = **columns;
  if (Error error = splitWeight(op, 1, split))
    return error;
  split.ofRows = false;
  splits.try_emplace(op.result(), ValueSplit{static_cast<unsigned>(op.result()->type.rank() - 1), size, split});
  return Error::success();
}

Error Sharder::shardAdd(Op &op) {
  const ValueSplit *a = find(op.operand(0)), *b = find(op.operand(1));
  const Value &bias = *op.operand(1);
  bool addsBias = a && bias.isWeight() && bias.type.rank() == 1 && a->dim + 1 == op.result()->type.rank();
  if (!addsBias && !(a && b && *a == *b))
    return gatherOperands(op);
  if (addsBias)
    if (Error error = splitWeight(op, 1, a->split))
      return error;
  splits.try_emplace(op.result(), ValueSplit(*a));
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// Splits of heads go through attention: heads do not depend on each other.
Error Sharder::shardHeads(Op &op) {
  const ValueSplit *x = find(op.operand(0));
  if (!x)
    return gatherOperands(op);
  ValueSplit result = *x;
  bool isOfHeads = x->dim == 1 && op.operand(0)->type.rank() == 4;
  if (op.is(OpKind::splitHeads)) {
    int64_t heads = op.intAttribute("heads"), parts = op.intAttribute("parts");
    if (x->dim != 2 || x->split.parts != parts || x->split.unit * heads * parts != x->size)
      return gatherOperands(op);
    result = {1, heads, {.ranks = ranks}};
    op.setAttribute("heads", result.split.room(heads));
  } else if (op.is(OpKind::mergeHeads) && isOfHeads) {
    int64_t width = *op.result()->type.lastDim().asConstant() / *op.operand(0)->type.shape[1].asConstant();
    result = {2, x->size * width, {.ranks = ranks, .unit = width}};
  } else {
    const ValueSplit *other = op.has(Trait::Contraction) ? find(op.operand(1)) : x;
    if (!isOfHeads || !other || !(*other == *x))
      return gatherOperands(op);
  }
  splits.try_emplace(op.result(), result);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

/// Adds up the op's results of all ranks. Its readers get the sum, which has the name that the whole result had.
void Sharder::reduce(Op &op) {
  Value *part = op.result();
  std::string whole = part->name;
  part->name = names->unique(withEnding(whole, "_part"));
  SmallVector<Op *, 4> readers(part->getUsers());
  auto sum = std::make_unique<Op>(opTable()[OpKind::allReduce], ArrayRef<Value *>(part), AttributeMap(), op.loc);
  Value *result = sum->addResult(whole, part->type);
  op.parent()->insert(std::move(sum), op.next());
  for (Op *reader : readers)
    for (unsigned i = 0; i < reader->operands().size(); ++i)
      if (reader->operand(i) == part)
        reader->setOperand(i, result);
}

/// All of a split value. Error: it is not split along its last dimension, in one part.
Expected<Value *> Sharder::gathered(Value &value, const Op &reader) {
  Value *&made = whole[&value];
  if (made)
    return made;
  const ValueSplit &split = *find(&value);
  if (split.dim + 1 != value.type.rank() || split.split.parts != 1)
    return opError(reader, "shard-tensors: expected only ops that work on each head by itself to read %" + value.name +
                               ", whose heads are split");
  AttributeMap attributes = {{"size", split.size}};
  if (split.split.unit != 1)
    attributes.insert({"unit", split.split.unit});
  Op &producer = *value.definingOp();
  auto gather = std::make_unique<Op>(opTable()[OpKind::allGather], ArrayRef<Value *>(&value), attributes, producer.loc);
  std::string name = value.name;
  value.name = names->unique(withEnding(name, "_share"));
  made = gather->addResult(name, value.type);
  producer.parent()->insert(std::move(gather), producer.next());
  return made;
}

/// Gives the op whole operands.
Error Sharder::gatherOperands(Op &op) {
  for (unsigned i = 0; i < op.operands().size(); ++i) {
    if (!find(op.operand(i)))
      continue;
    Expected<Value *> value = gathered(*op.operand(i), op);
    if (!value)
      return value.takeError();
    op.setOperand(i, *value);
  }
  return Error::success();
}

Error shardTensors(Module &module, const PassOptions &options) {
  int64_t ranks = options.getInt("ranks");
  if (ranks < 1)
    return makeError(module.loc, "shard-tensors: ranks: expected 1 or more, got " + Twine(ranks));
  return ranks == 1 ? Error::success() : Sharder(module, ranks).run();
}

} // namespace

const PassDef shardTensorsPass = {
    .name = "shard-tensors",
    .summary = "Splits weights, heads and the vocabulary among ranks, and exchanges sums and shares",
    .run = shardTensors,
    .options = {{"ranks", int64_t(1), "GPUs that share the model; 1: no split", {}, mostRanks}},
};

} // namespace kiln
