// insert-kv-cache: keeps keys and values of the past in state, and derives @decode from @prefill.
//
//   %scores = qk %q, %k                   %kc     = cache_write %k_cache.0, %k
//   %masked = causal_mask %scores         %scores = qk %q, %kc
//   %probs  = softmax %masked        ->   %masked = causal_mask %scores
//   %out    = pv %probs, %v               %probs  = softmax %masked
//                                         %vc     = cache_write %v_cache.0, %v
//                                         %out    = pv %probs, %vc
//
// This happens in @prefill, and for one token per sequence in @decode(tokens i32[B,1], positions i32[B]), where embed,
// causal_mask and cache_write take the positions. Rows of the cache past a sequence's position hold remains of earlier
// calls or of padding; the mask hides them. @score keeps no state and is left alone.
//
// Refuses (the attention is left as it is, without one the function): no causal mask, keys of other tokens than the
// queries', ops other than scale, cast and mask on the scores, scores or probabilities with another user. Error:
// another @prefill than (tokens i32[B,T], lengths i32[B]) with lengths for last_row only, or with fused regions, a
// @decode or states that are there already, a module without the attribute `context` or one less than T may be.
#include "ir/Builder.h"
#include "ir/Verifier.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

/// One attention: the op that reads the keys and the op that reads the values.
struct Attention {
  Op *qk, *pv;
};

/// The attentions of a block in order: qk, scale and causal mask, softmax, pv.
SmallVector<Attention, 8> findAttentions(Block &block) {
  SmallVector<Attention, 8> found;
  for (Op *pv : block.snapshot()) {
    Op *op = pv->is(OpKind::pv) ? soleProducer(*pv->operand(0)) : nullptr;
    if (!op || !op->is(OpKind::softmax))
      continue;
    bool isMasked = false;
    op = soleProducer(*op->operand(0));
    while (op && (op->is(OpKind::scale) || op->is(OpKind::cast) || op->is(OpKind::causalMask))) {
      isMasked |= op->is(OpKind::causalMask);
      op = soleProducer(*op->operand(0));
    }
    if (!op || !op->is(OpKind::qk) || !isMasked)
      continue;
    if (op->operand(0)->type.shape[2] == op->operand(1)->type.shape[2])
      found.push_back({op, pv});
  }
  return found;
}

/// Gives attentions of @prefill their caches.
class CacheInserter {
public:
  CacheInserter(Module &module, const Function &prefill, int64_t capacity)
      : module(module), capacity(capacity), everywhere(module), inPrefill(prefill) {}

  /// Writes an operand of `reader` into a new state before the reader, and makes it read the state.
  Error insert(Op &reader, StringRef letter, size_t layer) {
    Value *rows = reader.operand(1);
    Type type = rows->type;
    type.shape[2] = capacity;
    if (!type.largestBytes())
      return opError(reader, "insert-kv-cache: expected a cache of at most 2^48 bytes, got " + type.str());
    std::string suffix = "." + std::to_string(layer);
    Value *cache = module.addState(everywhere.unique((letter + "_cache" + suffix).str()), type);
    inPrefill.take(cache->name);
    Op *producer = rows->definingOp();
    Builder builder(opTable(), &reader);
    builder.loc = producer ? producer->loc : reader.loc;
    Value *written = builder.create(OpKind::cacheWrite, inPrefill.unique((letter + "c" + suffix).str()), {cache, rows});
    everywhere.take(written->name);
    reader.setOperand(1, written);
    return Error::success();
  }

private:
  Module &module;
  int64_t capacity;
  TakenNames everywhere, inPrefill;
};

/// Clones @prefill op by op for one token per sequence.
class DecodeBuilder {
public:
  DecodeBuilder(Module &module, Function &prefill)
      : prefill(prefill), decode(*module.addFunction(entryName(Entry::Decode), prefill.loc)) {}

  Error build() {
    Dim batch = prefill.arguments[0]->type.shape[0];
    Value *tokens = prefill.arguments[0].get();
    mapped[tokens] = decode.addArgument(tokens->name, Type(DType::I32, {batch, 1}), {});
    positions = decode.addArgument(TakenNames(prefill).unique("positions"), Type(DType::I32, {batch}), {});
    for (const auto &op : prefill.body.ops())
      clone(*op);
    return refreshTypes(decode.body);
  }

private:
  Value *lookup(Value *value) const {
    auto it = mapped.find(value);
    return it == mapped.end() ? value : it->second; // weights and states
  }

  void clone(const Op &op) {
    // With one row, last_row is the identity.
    if (op.is(OpKind::lastRow)) {
      mapped[op.result()] = lookup(op.operand(0));
      return;
    }
    SmallVector<Value *, 4> operands;
    for (Value *operand : op.operands())
      operands.push_back(lookup(operand));
    if (op.is(OpKind::embed) || op.is(OpKind::causalMask) || op.is(OpKind::cacheWrite))
      operands.push_back(positions);
    Op *copy = decode.body.insert(std::make_unique<Op>(op.def(), operands, op.attributes(), op.loc));
    for (const auto &result : op.results())
      mapped[result.get()] = copy->addResult(result->name, result->type);
  }

  Function &prefill, &decode;
  Value *positions = nullptr;
  DenseMap<const Value *, Value *> mapped;
};

Error checkPrefill(const Function &prefill) {
  const auto &arguments = prefill.arguments;
  for (const auto &op : prefill.body.ops())
    if (op->region())
      return opError(*op, "insert-kv-cache: expected no fused region; run it before the passes that fuse");
  bool fits = arguments.size() == 2 && arguments[0]->type.rank() == 2 && arguments[0]->type.dtype == DType::I32 &&
              arguments[1]->type == Type(DType::I32, {arguments[0]->type.shape[0]}) &&
              llvm::all_of(arguments[1]->getUsers(), [](const Op *user) { return user->is(OpKind::lastRow); });
  return fits ? Error::success()
              : makeError(prefill.loc,
                          "insert-kv-cache: expected @prefill(tokens i32[B,T], lengths i32[B]) with lengths "
                          "for last_row only");
}

Error checkModule(const Module &module, const Function &prefill) {
  if (Error error = checkPrefill(prefill))
    return error;
  if (const Function *decode = module.findFunction(Entry::Decode))
    return makeError(decode->loc, "insert-kv-cache: expected a module without @decode");
  if (!module.states.empty())
    return makeError(module.states.front()->loc, "insert-kv-cache: expected a module without states");
  const Attribute *context = findAttribute(module.attributes, ModuleAttribute::context);
  if (!context)
    return makeError(module.loc, "insert-kv-cache: expected the module attribute 'context', the number of positions");
  Dim tokens = prefill.arguments[0]->type.shape[1];
  if (context->asInt() < tokens.upperBound())
    return makeError(module.loc, "insert-kv-cache: expected a context of at least " + Twine(tokens.upperBound()) +
                                     ", the tokens of @prefill, got " + Twine(context->asInt()));
  return Error::success();
}

Error insertKvCache(Module &module, const PassOptions &) {
  Function *prefill = module.findFunction(Entry::Prefill);
  if (!prefill)
    return Error::success();
  SmallVector<Attention, 8> attentions = findAttentions(prefill->body);
  if (attentions.empty())
    return Error::success();
  if (Error error = checkModule(module, *prefill))
    return error;
  CacheInserter caches(module, *prefill, module.intAttribute(ModuleAttribute::context));
  for (const auto &[layer, attention] : llvm::enumerate(attentions)) {
    if (Error error = caches.insert(*attention.qk, "k", layer))
      return error;
    if (Error error = caches.insert(*attention.pv, "v", layer))
      return error;
  }
  if (Error error = refreshTypes(prefill->body))
    return error;
  return DecodeBuilder(module, *prefill).build();
}

} // namespace

const PassDef insertKvCachePass = {
    .name = "insert-kv-cache",
    .summary = "Keeps keys and values in state and derives @decode, one token a sequence, from @prefill",
    .run = insertKvCache,
};

} // namespace kiln
