// insert-kv-cache: keeps keys and values of the past in state, and derives @decode from @prefill.
//
//   %scores = qk %q, %k                   %kc     = cache_write %k_cache.0, %k
//   %masked = causal_mask %scores         %scores = qk %q, %kc
//   %probs  = softmax %masked        ->   %masked = causal_mask %scores
//   %out    = pv %probs, %v               %probs  = softmax %masked
//                                         %vc     = cache_write %v_cache.0, %v
//                                         %out    = pv %probs, %vc
//
// in @prefill, and the same over one token a sequence as @decode(tokens i32[B,1], positions i32[B]), where embed,
// causal_mask and cache_write take the positions. Rows of the cache past a sequence's position hold what an earlier
// call or padding left there; the mask hides them. @score keeps no state and is left alone.
//
// Refuses (the function is left as it is): attention without a causal mask. Error: a @decode that is there already,
// caches that are there already, a module without the attribute `context`.
#include "ir/Builder.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

/// One attention: what reads the keys and what reads the values.
struct Attention {
  Op *qk, *pv;
};

/// The attentions of a block in order: qk, pointwise ops with a causal mask among them, softmax, pv.
SmallVector<Attention, 8> findAttentions(Block &block) {
  SmallVector<Attention, 8> found;
  for (Op *pv : block.snapshot()) {
    if (!pv->is(OpKind::pv))
      continue;
    Op *op = pv->operand(0)->definingOp();
    if (!op || !op->is(OpKind::softmax))
      continue;
    bool isMasked = false;
    for (op = op->operand(0)->definingOp(); op && op->has(Trait::Pointwise); op = op->operand(0)->definingOp())
      isMasked |= op->is(OpKind::causalMask);
    if (op && op->is(OpKind::qk) && isMasked)
      found.push_back({op, pv});
  }
  return found;
}

/// Writes an operand of `reader` into a new state before the reader, and makes it read the state.
void insertCache(Module &module, Op &reader, StringRef letter, size_t layer, int64_t capacity) {
  Value *rows = reader.operand(1);
  Type type = rows->type;
  type.shape[2] = capacity;
  std::string suffix = "." + std::to_string(layer);
  Value *cache = module.addState((letter + "_cache" + suffix).str(), type);
  Op *producer = rows->definingOp();
  Builder builder(opTable(), &reader);
  builder.loc = producer ? producer->loc : reader.loc;
  Function &function = *reader.parent()->function();
  Value *written = builder.create(OpKind::cacheWrite, uniqueName(function, (letter + "c" + suffix).str()), {cache, rows});
  reader.setOperand(1, written);
}

/// Clones @prefill op by op for one token a sequence.
class DecodeBuilder {
public:
  DecodeBuilder(Module &module, Function &prefill) : prefill(prefill), decode(*module.addFunction("decode", prefill.loc)) {}

  Error build() {
    Dim batch = prefill.arguments[0]->type.shape[0];
    mapped[prefill.arguments[0].get()] = decode.addArgument("tokens", Type(DType::I32, {batch, 1}), {});
    positions = decode.addArgument("positions", Type(DType::I32, {batch}), {});
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
    // Of one row, the last is the only one.
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

Error checkModule(const Module &module) {
  auto context = module.attributes.find("context");
  if (context == module.attributes.end() || context->second.kind() != Attribute::Kind::Int || context->second.asInt() < 1)
    return makeError(module.loc, "insert-kv-cache: expected the module attribute 'context', the number of positions");
  if (module.findFunction("decode"))
    return makeError(module.findFunction("decode")->loc, "insert-kv-cache: expected a module without @decode");
  if (!module.states.empty())
    return makeError(module.states.front()->loc, "insert-kv-cache: expected a module without states");
  return Error::success();
}

Error insertKvCache(Module &module, const PassOptions &) {
  Function *prefill = module.findFunction("prefill");
  if (!prefill)
    return Error::success();
  if (Error error = checkModule(module))
    return error;
  SmallVector<Attention, 8> attentions = findAttentions(prefill->body);
  if (attentions.empty())
    return Error::success();
  int64_t capacity = module.attributes.find("context")->second.asInt();
  for (const auto &[layer, attention] : llvm::enumerate(attentions)) {
    insertCache(module, *attention.qk, "k", layer, capacity);
    insertCache(module, *attention.pv, "v", layer, capacity);
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
