#include "kernels/families/DecodeRegion.h"

#include "ir/Verifier.h"
#include "ops/Region.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

/// Takes ops one after the other. The first that is not as expected is the error; then nothing more is taken.
class Reader {
public:
  explicit Reader(ArrayRef<const Op *> ops) : rest(ops) {}
  ~Reader() { llvm::consumeError(std::move(failure)); }

  bool hasFailed() const { return failed; }
  bool isAtEnd() const { return rest.empty(); }
  bool isNext(OpKind kind) const { return !rest.empty() && rest.front()->is(kind); }
  Error takeError() { return std::move(failure); }
  const Op *peek() const { return rest.empty() ? nullptr : rest.front(); }

  /// The next op, if it has one of the kinds and its first operand is `from`.
  const Op *take(ArrayRef<OpKind> kinds, const Value *from, StringRef expected) {
    return takeIf(
        [&](const Op &op) { return llvm::is_contained(kinds, op.kind()) && (!from || op.operand(0) == from); },
        expected);
  }
  const Op *takeIf(function_ref<bool(const Op &)> accept, StringRef expected) {
    if (failed)
      return nullptr;
    if (rest.empty() || !accept(*rest.front())) {
      failed = true;
      failure = rest.empty() ? makeError(last ? last->loc : Location(), "expected " + expected + " behind the last op")
                             : opError(*rest.front(), "expected " + expected + " at this place of a layer of decode");
      return nullptr;
    }
    last = rest.front();
    rest = rest.drop_front();
    return last;
  }

private:
  ArrayRef<const Op *> rest;
  const Op *last = nullptr;
  Error failure = Error::success();
  bool failed = false;
};

const Value *resultOf(const Op *op) { return op ? op->result() : nullptr; }

/// The sum of all ranks of what an op gives; null if there is none.
const Op *takeSum(Reader &reader, const Op *part) {
  return reader.isNext(OpKind::allReduce) ? reader.take(OpKind::allReduce, resultOf(part), "all_reduce") : nullptr;
}

struct BiasedProduct {
  const Op *product = nullptr, *sum = nullptr, *bias = nullptr;
};

/// A product with a bias, whose weight is [cols, depth]. A sum of ranks may be between them.
BiasedProduct takeProduct(Reader &reader, const Value *from) {
  const Op *product = reader.takeIf(
      [&](const Op &op) {
        return op.is(OpKind::matmul) && op.operand(0) == from && op.operand(1)->isWeight() &&
               op.boolAttribute("transpose_b");
      },
      "a matmul of the op before it with a weight that pack-weights has transposed");
  const Op *sum = takeSum(reader, product);
  const Op *bias = reader.takeIf(
      [&](const Op &op) {
        return op.is(OpKind::add) && op.operand(0) == resultOf(sum ? sum : product) && op.operand(1)->isWeight();
      },
      "the addition of a bias");
  return {product, sum, bias};
}

const Op *takeNorm(Reader &reader, const Value *from) {
  return reader.takeIf(
      [&](const Op &op) { return op.is(OpKind::layernorm) && op.operands().size() == 1 && op.operand(0) == from; },
      "a layernorm whose parameters fold-norm-parameters has folded");
}

const Op *takeResidual(Reader &reader, const Op *bias, const Value *x) {
  return reader.takeIf(
      [&](const Op &op) { return op.is(OpKind::add) && op.operand(0) == resultOf(bias) && op.operand(1) == x; },
      "the addition of the residual stream");
}

void readHeads(Reader &reader, DecodeLayer &layer) {
  for (unsigned part = 0; part < 3; ++part)
    layer.split[part] = reader.takeIf(
        [&](const Op &op) {
          return op.is(OpKind::splitHeads) && op.operand(0) == resultOf(layer.qkvBias) &&
                 op.intAttribute("part") == part && op.intAttribute("parts", 1) == 3;
        },
        "split_heads of queries, keys and values in this order");
  for (unsigned i = 0; i < 2; ++i)
    layer.write[i] = reader.takeIf(
        [&](const Op &op) {
          return op.is(OpKind::cacheWrite) && op.operand(0)->isState() && op.operandOrNull(2) &&
                 op.operand(1) == resultOf(layer.split[i + 1]);
        },
        "cache_write of keys, and then of values, at positions");
}

void readAttention(Reader &reader, DecodeLayer &layer) {
  layer.qk = reader.takeIf(
      [&](const Op &op) {
        return op.is(OpKind::qk) && op.operand(0) == resultOf(layer.split[0]) &&
               op.operand(1) == resultOf(layer.write[0]);
      },
      "qk of the queries and the cache");
  const Value *scores = resultOf(layer.qk);
  while (reader.isNext(OpKind::scale)) {
    layer.scales.push_back(reader.take(OpKind::scale, scores, "scale"));
    scores = resultOf(layer.scales.back());
  }
  layer.mask = reader.takeIf(
      [&](const Op &op) {
        return op.is(OpKind::causalMask) && op.operand(0) == scores && op.operandOrNull(1) && !op.attribute("window") &&
               !op.attribute("offset");
      },
      "causal_mask at positions, without a window,");
  layer.softmax = reader.take(OpKind::softmax, resultOf(layer.mask), "softmax");
  layer.pv = reader.takeIf(
      [&](const Op &op) {
        return op.is(OpKind::pv) && op.operand(0) == resultOf(layer.softmax) &&
               op.operand(1) == resultOf(layer.write[1]);
      },
      "pv of the probabilities and the cache");
  layer.merge = reader.take(OpKind::mergeHeads, resultOf(layer.pv), "merge_heads");
}

const Op *readEmbedding(Reader &reader) {
  return reader.takeIf(
      [](const Op &op) {
        return op.is(OpKind::embed) && op.operandOrNull(3) && op.operand(1)->isWeight() && op.operand(2)->isWeight();
      },
      "embed of tokens at positions");
}

DecodeLayer readLayer(Reader &reader, const Value *x) {
  DecodeLayer layer;
  layer.attentionNorm = takeNorm(reader, x);
  const BiasedProduct qkv = takeProduct(reader, resultOf(layer.attentionNorm));
  layer.qkv = qkv.product, layer.qkvBias = qkv.bias;
  readHeads(reader, layer);
  readAttention(reader, layer);
  const BiasedProduct proj = takeProduct(reader, resultOf(layer.merge));
  layer.proj = proj.product, layer.projSum = proj.sum, layer.projBias = proj.bias;
  layer.mid = takeResidual(reader, layer.projBias, x);
  layer.mlpNorm = takeNorm(reader, resultOf(layer.mid));
  const BiasedProduct fc = takeProduct(reader, resultOf(layer.mlpNorm));
  layer.fc = fc.product, layer.fcBias = fc.bias;
  layer.activation = reader.takeIf(
      [&](const Op &op) {
        return op.def().deviceExpression && op.operands().size() == 1 && !op.is(OpKind::cast) &&
               op.operand(0) == resultOf(layer.fcBias);
      },
      "an activation function");
  const BiasedProduct fcproj = takeProduct(reader, resultOf(layer.activation));
  layer.fcproj = fcproj.product, layer.fcprojSum = fcproj.sum, layer.fcprojBias = fcproj.bias;
  layer.out = takeResidual(reader, layer.fcprojBias, resultOf(layer.mid));
  return layer;
}

/// Checks that an op of a later layer does what that of the first one does, on tensors of the same types.
Error checkAlike(const Op &op, const Op &first) {
  bool isAlike = op.kind() == first.kind() && op.attributes() == first.attributes() &&
                 op.operands().size() == first.operands().size() && op.result()->type == first.result()->type;
  for (unsigned i = 0; isAlike && i < op.operands().size(); ++i)
    isAlike = op.operand(i)->type == first.operand(i)->type &&
              (op.operand(i)->getKind() != Value::Kind::Argument || op.operand(i) == first.operand(i));
  return isAlike ? Error::success()
                 : opError(op, "expected the attributes and types that the first layer has at this place");
}

/// Checks that sums and shares of ranks are exchanged where the kernel does so: where there are several ranks, each
/// narrow product and the logits.
Error checkExchanges(const DecodeRegion &region) {
  const DecodeLayer &first = region.layers.front();
  const bool isSplit = region.ranks() > 1;
  auto check = [&](const Op &op, bool isExchanged, bool isExpected) {
    return isExchanged == isExpected
               ? Error::success()
               : opError(op,
                         Twine("expected ") + (isExpected ? "an exchange of all ranks" : "no exchange") + " behind it");
  };
  auto partOf = [](const Op &product) -> const Op * {
    const Op *next = product.next();
    return next && next->is(OpKind::allReduce) ? next : nullptr;
  };
  for (const auto &[op, isExchanged, isExpected] : {std::tuple(first.qkv, partOf(*first.qkv) != nullptr, false),
                                                    {first.proj, first.projSum != nullptr, isSplit},
                                                    {first.fc, partOf(*first.fc) != nullptr, false},
                                                    {first.fcproj, first.fcprojSum != nullptr, isSplit},
                                                    {region.product, region.gather != nullptr, isSplit}})
    if (Error error = check(*op, isExchanged, isExpected))
      return error;
  if (region.gather && region.gather->intAttribute("unit", 1) != 1)
    return opError(*region.gather, "expected shares of any number of tokens");
  return Error::success();
}

/// Checks that the first layer has the tokens at the positions that the embedding gives them.
Error checkPositions(const DecodeRegion &region) {
  const DecodeLayer &first = region.layers.front();
  for (const auto &[op, operand] : {std::pair(first.write[0], 2U), {first.write[1], 2U}, {first.mask, 1U}})
    if (op->operand(operand) != &region.positions())
      return opError(*op, "expected the positions of the embedding, %" + region.positions().name);
  return Error::success();
}

} // namespace

Expected<DecodeRegion> DecodeRegion::read(const Op &fused) {
  const std::vector<const Op *> ops = opsOf(*fused.region());
  Reader reader(ops);
  DecodeRegion region;
  region.embed = readEmbedding(reader);
  const Value *x = resultOf(region.embed);
  auto isLayer = [&] { return reader.isNext(OpKind::layernorm) && reader.peek()->operands().size() == 1; };
  while (!reader.hasFailed() && (region.layers.empty() || isLayer())) {
    region.layers.push_back(readLayer(reader, x));
    x = resultOf(region.layers.back().out);
  }
  region.lastNorm = reader.takeIf(
      [&](const Op &op) { return op.is(OpKind::layernorm) && op.operands().size() == 3 && op.operand(0) == x; },
      "another layer, or a layernorm with weight and bias");
  region.product = reader.takeIf(
      [&](const Op &op) {
        return op.is(OpKind::matmul) && op.operand(0) == resultOf(region.lastNorm) && op.operand(1)->isWeight() &&
               op.boolAttribute("transpose_b");
      },
      "the matmul for the logits");
  if (reader.isNext(OpKind::slice))
    region.slice = reader.take(OpKind::slice, resultOf(region.product), "slice");
  else if (reader.isNext(OpKind::allGather))
    region.gather = reader.take(OpKind::allGather, resultOf(region.product), "all_gather");
  if (!reader.hasFailed() && !reader.isAtEnd())
    reader.takeIf([](const Op &) { return false; }, "the end of the function behind the logits");
  if (reader.hasFailed())
    return reader.takeError();
  if (Error error = checkPositions(region))
    return error;
  if (Error error = checkExchanges(region))
    return error;
  const size_t before = 1, behind = region.slice || region.gather ? 3 : 2;
  const size_t ofLayer = (ops.size() - before - behind) / region.layers.size();
  region.firstOps.assign(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(before + ofLayer));
  region.lastOps.assign(ops.end() - static_cast<ptrdiff_t>(behind), ops.end());
  const ArrayRef<const Op *> ofLayers = ArrayRef(ops).drop_front(before).drop_back(behind);
  for (const auto &[i, op] : llvm::enumerate(ofLayers))
    if (Error error = checkAlike(*op, *ofLayers[i % ofLayer]))
      return error;
  return region;
}

std::optional<DecodeRegion> DecodeRegion::of(const Op &fused) {
  // No other region has as many ops.
  constexpr size_t fewest = 20;
  if (!fused.region() || fused.region()->ops().size() < fewest)
    return std::nullopt;
  Expected<DecodeRegion> region = read(fused);
  if (region)
    return std::move(*region);
  llvm::consumeError(region.takeError());
  return std::nullopt;
}

} // namespace kiln
