// Fused attention: Score transforms a product of query and key, Epilogue receives the output.
#include "codegen/KernelText.h"
#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "ops/Region.h"

namespace kiln {

Functor scoreFunctor(const Op &product, ArrayRef<const Op *> scales, const KernelNames &names) {
  Functor score("Score", names);
  std::string value = names.of(*product.result()).str();
  score.add("KILN_DEVICE float operator()(float " + value + ") const {");
  for (const Op *op : scales) {
    std::string result = names.of(*op->result()).str();
    score.add("  const float " + result + " = " + op->def().deviceExpression(*op, {value}) + "; // " + names.line(*op),
              op);
    value = result;
  }
  score.add("  return " + value + ";");
  score.add("}");
  return score;
}

Functor positionFunctor(const Op &mask, const KernelNames &names) {
  Functor position("Position", names);
  const Value *positions = mask.operandOrNull(1);
  std::string value = positions ? position.pointer(*positions) + "[b]" + offsetText(mask) : "0";
  position.add("// " + names.line(mask), &mask);
  position.add("KILN_DEVICE int operator()(int b) const { return " + value + "; }", &mask);
  return position;
}

namespace {

/// The parts of a fused attention as fuse-attention makes it: a chain of ops, each applied to the previous result.
struct AttentionRegion {
  const Op *qk = nullptr, *mask = nullptr, *softmax = nullptr, *pv = nullptr;
  SmallVector<const Op *, 2> scales; ///< pointwise ops between the product and the mask
  SmallVector<const Op *, 2> tail;   ///< layout ops on the output

  /// Error: an op of the chain is not the expected one.
  static Expected<AttentionRegion> of(const Op &op);

  const Value &q() const { return *qk->operand(0); }
  const Value &k() const { return *qk->operand(1); }
  const Value &v() const { return *pv->operand(1); }
  int64_t headSize() const { return *q().type.lastDim().asConstant(); }

private:
  /// Takes the next op. Returns what was expected if it is another one, else an empty text.
  StringRef take(const Op &op);
};

StringRef AttentionRegion::take(const Op &op) {
  auto takeAs = [&](const Op *&part, OpKind kind) {
    part = op.is(kind) ? &op : nullptr;
    return part != nullptr;
  };
  if (!qk)
    return takeAs(qk, OpKind::qk) ? "" : "qk";
  if (!mask) {
    bool isOfScore = op.has(Trait::Pointwise) && op.operands().size() == 1 && !op.is(OpKind::causalMask) &&
                     !op.is(OpKind::cast); // a cast rounds, which the functor would not
    if (isOfScore)
      scales.push_back(&op);
    return isOfScore || takeAs(mask, OpKind::causalMask) ? "" : "causal_mask, or a function of one score (no cast),";
  }
  if (!softmax)
    return takeAs(softmax, OpKind::softmax) ? "" : "softmax";
  if (!pv)
    return takeAs(pv, OpKind::pv) ? "" : "pv";
  bool isMove = op.has(Trait::Layout) && !op.has(Trait::WritesState);
  if (isMove)
    tail.push_back(&op);
  return isMove ? "" : "a layout op";
}

Expected<AttentionRegion> AttentionRegion::of(const Op &op) {
  AttentionRegion region;
  const Op *last = nullptr;
  for (const auto &inner : op.region()->ops()) {
    if (inner->has(Trait::Terminator))
      break;
    if (StringRef expected = region.take(*inner); !expected.empty())
      return opError(*inner, "expected " + expected + " at this place of an attention");
    if (last && inner->operand(0) != last->result())
      return opError(*inner, "expected operand 0 to be %" + last->result()->name + " in an attention");
    last = inner.get();
  }
  return region;
}

/// Tensor-core attention multiplies scores by one constant, as part of its exponentials. Error: another function.
Expected<Functor> factorFunctor(const AttentionRegion &region, const KernelNames &names) {
  Functor score("Score", names);
  std::vector<std::string> factors;
  for (const Op *op : region.scales) {
    if (!op->is(OpKind::scale))
      return opError(*op, "expected scale only, between qk and causal_mask in tensor cores");
    score.add("// " + names.line(*op), op);
    factors.push_back(op->attribute("factor")->str() + "f");
  }
  score.add("static constexpr float kFactor = " + (factors.empty() ? "1.0f" : llvm::join(factors, " * ")) + ";",
            region.scales.empty() ? nullptr : region.scales.back());
  return score;
}

Expected<Functor> epilogueFunctor(const Op &op, const AttentionRegion &region, const KernelNames &names) {
  Functor epilogue("Epilogue", names);
  EpilogueEmitter emitter(epilogue, names, op, 2);
  Coordinates at;
  at.index = {"b", "h", region.q().type.shape[2] == Dim(1) ? "0" : "t", "d"};
  emitter.begin(*region.pv->result(), at);
  for (const Op *tail : region.tail)
    if (Error error = emitter.emit(*tail))
      return error;
  epilogue.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + names.of(*region.pv->result()) +
               ", int b, int h, int t, int d) const {");
  epilogue.add(emitter.text());
  epilogue.add("}");
  return epilogue;
}

/// The view of a tensor [B,H,S,D], like `HeadView<float>{k, i64(12) * 1024 * 64, i64(1024) * 64, 64}`.
std::string headView(Functor &call, const Value &value) {
  const Type &type = value.type;
  auto product = [&](size_t first) {
    std::string text;
    for (size_t i = first; i < 4; ++i)
      if (!(type.shape[i] == Dim(1)))
        text += text.empty() ? "i64(" + call.extent(type.shape[i]) + ")" : " * " + call.extent(type.shape[i]);
    return text;
  };
  return ("HeadView<" + cxxType(type.dtype) + ">{" + call.pointer(value) + ", " + product(1) + ", " + product(2) +
          ", " + call.extent(type.lastDim()) + "}")
      .str();
}

/// Whether the tensors of keys and values may have rows that are no keys of a call: where they are a cache, not those
/// of the queries' tokens.
bool canHavePastKeys(const AttentionRegion &region) {
  return region.mask->operandOrNull(1) || !(region.k().type.shape[2] == region.q().type.shape[2]);
}

std::string extents(const AttentionRegion &region) {
  const Attribute *window = region.mask->attribute("window");
  return ("h" + region.q().type.shape[1].str() + "_hs" + Twine(region.headSize()) +
          (window ? "_w" + window->str() : "") + (isAtLengths(*region.mask) ? "_last" : ""))
      .str();
}

/// Adds the constants that the Config of every attention has.
void addConstants(KernelAssembler &kernel, const AttentionRegion &region) {
  kernel.constant("kHeadSize", Twine(region.headSize()));
  if (const Attribute *window = region.mask->attribute("window"))
    kernel.constant("kWindow", window->str());
}

} // namespace

Expected<KernelText> writeFlashKernel(const Op &op, const KernelChoice &choice) {
  Expected<AttentionRegion> region = AttentionRegion::of(op);
  if (!region)
    return region.takeError();
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  addConstants(kernel, *region);
  kernel.constant("kCausal", "true");
  bool inTensorCores = choice.family->form == KernelForm::TensorFlash;
  Functor position = positionFunctor(*region->mask, names);
  Expected<Functor> score =
      inTensorCores ? factorFunctor(*region, names) : scoreFunctor(*region->qk, region->scales, names);
  Expected<Functor> epilogue = epilogueFunctor(op, *region, names);
  if (!score || !epilogue)
    return llvm::joinErrors(score.takeError(), epilogue.takeError());
  kernel.add(position);
  kernel.add(*score);
  kernel.add(*epilogue);
  Functor &call = kernel.call();
  std::string queries = call.extent(region->q().type.shape[2]), keys = call.extent(region->k().type.shape[2]);
  // Maps tell neither their elements nor whether all rows are keys of the call.
  const bool hasMaps = static_cast<bool>(choice.family->maps);
  if (hasMaps)
    kernel.constant("kPastKeys", canHavePastKeys(*region) ? "true" : "false");
  if (auto ranges = choice.tile.find("ranges"); ranges != choice.tile.end())
    kernel.constant("kRangeKeys", Twine(keysOfRange(op, ranges->second.asInt())));
  auto view = [&](const Value &value) { return hasMaps ? kernel.operand(value) : headView(call, value); };
  std::string element = hasMaps ? (", " + cxxType(region->k().type.dtype)).str() : "";
  std::string start = choice.family->body.str() + "<Config" + element + ">(",
              next = ",\n" + std::string(start.size() + 2, ' ');
  std::string ofOperand = hasMaps ? ", " : next;
  std::string statement = start + queries + ", " + keys + ", " + view(region->q()) + ofOperand + view(region->k()) +
                          ofOperand + view(region->v()) + next + position.construction() + ", " +
                          score->construction() + ", " + epilogue->construction() + ");";
  return kernel.finish(statement, region->k().type.dtype, extents(*region));
}

Expected<KernelText> writeSplitKvKernel(const Op &op, const KernelChoice &choice) {
  Expected<AttentionRegion> region = AttentionRegion::of(op);
  if (!region)
    return region.takeError();
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  addConstants(kernel, *region);
  Functor position = positionFunctor(*region->mask, names), score = scoreFunctor(*region->qk, region->scales, names);
  Expected<Functor> epilogue = epilogueFunctor(op, *region, names);
  if (!epilogue)
    return epilogue.takeError();
  kernel.add(position);
  kernel.add(score);
  kernel.add(*epilogue);
  if (choice.family->workspace)
    kernel.addWorkspace("SplitPart<Config::kHeadSize>");
  Functor &call = kernel.call();
  if (std::string queries = call.extent(region->q().type.shape[2]); queries != "1")
    kernel.constant("kQueries", queries);
  if (isAtLengths(*region->mask))
    kernel.constant("kOwnKeys", "true");
  std::string start = choice.family->body.str() + "<Config>(", next = ",\n" + std::string(start.size() + 2, ' ');
  std::string statement = start + headView(call, region->q()) + next + headView(call, region->k()) + next +
                          headView(call, region->v()) + next + position.construction() + ", " + score.construction() +
                          (choice.family->workspace ? ", parts, arrivals, " : ", ") + epilogue->construction() + ");";
  return kernel.finish(statement, region->k().type.dtype, extents(*region));
}

} // namespace kiln
