// All layers of decode in one kernel: the phases of decode/layers.cuh, one after the other, each under the ops that it
// computes. Layers differ in parameters only, so the text has those of the first one, in a loop.
#include "codegen/PhaseFunctors.h"
#include "codegen/SamplingFunctions.h"

namespace kiln {

namespace {

/// Words of this kernel that no value may have as its name. The kernel's tokens and positions are sampling's, too.
std::vector<StringRef> wordsOfKernel(const SamplingParts *sampling) {
  std::vector<StringRef> words = {"count", "first",   "layer",         "mean", "prefetch",     "prefetchLine",
                                  "rstd",  "step",    "AttentionNorm", "Fc",   "LastNorm",     "Logits",
                                  "Mid",   "MlpNorm", "Out",           "Qkv",  "DecodeLayers", "GenerateTokens"};
  if (!sampling)
    return words;
  for (const SamplingArgument &argument : ArrayRef(sampling->state).drop_front(2))
    words.push_back(argument.name);
  words.push_back(sampling->best.name);
  return words;
}

/// The kernel of a region, put together.
class DecodeKernel {
public:
  /// Of @generate with `sampling`, else of @decode.
  DecodeKernel(const Op &op, const KernelChoice &choice, const DecodeRegion &region, const SamplingParts *sampling)
      : region(region), first(region.layers.front()), sampling(sampling),
        names(op, *choice.family, wordsOfKernel(sampling)), kernel(op, choice, names), functors(op, names) {}

  Expected<KernelText> write();

private:
  using Member = function_ref<const Value &(const DecodeLayer &)>;

  void addConstants();
  Error addFunctors();
  /// Adds a functor, or an error that it is.
  Error add(Expected<Functor> functor);
  /// The parameter for an operand of which each layer has its own.
  std::string perLayer(Member ofLayer, bool writes = false);
  std::string biasOf(const Op *DecodeLayer::*bias) {
    return perLayer([=](const DecodeLayer &layer) -> const Value & { return *(layer.*bias)->operand(1); });
  }
  std::string weightOf(const Op *DecodeLayer::*product) {
    return perLayer([=](const DecodeLayer &layer) -> const Value & { return *(layer.*product)->operand(1); });
  }

  void statement(const Twine &text, ArrayRef<const Op *> all = {}, unsigned indent = 2);
  /// The mailboxes, as the template's constructor takes them.
  std::string mailboxes() const { return region.ranks() == 1 ? "mail" : "{mails, stop, rank}"; }
  std::string cacheOf(StringRef layer);
  std::string weights();
  void writeLayer(unsigned indent);
  void writeToken(unsigned indent);
  void writeDecode(StringRef type);
  void writeGenerate(StringRef type);

  const DecodeRegion &region;
  const DecodeLayer &first;
  const SamplingParts *sampling; ///< null: @decode
  KernelNames names;
  KernelAssembler kernel;
  PhaseFunctors functors;
  std::vector<CodeLine> lines;
  std::string startFunctors, embedFunctor, lastFunctors; ///< constructions, the last of those of the logits
};

void DecodeKernel::addConstants() {
  kernel.constant("kLayers", Twine(region.layers.size()));
  kernel.constant("kDim", Twine(region.dim()));
  kernel.constant("kHeads", Twine(region.heads()));
  kernel.constant("kHidden", Twine(region.hidden()));
  kernel.constant("kContext", Twine(region.context()));
  kernel.constant("kCols", region.lastWeight().type.shape[0].str());
  kernel.constant("kRanks", Twine(region.ranks()));
}

Error DecodeKernel::add(Expected<Functor> functor) {
  if (!functor)
    return functor.takeError();
  kernel.add(*functor);
  return Error::success();
}

Error DecodeKernel::addFunctors() {
  Functor token = functors.token(*region.embed), position = positionFunctor(*first.mask, names),
          embed = functors.embed(*region.embed, /*prefetches=*/sampling != nullptr);
  for (const Functor *functor : {&token, &position, &embed})
    kernel.add(*functor);
  startFunctors = token.construction() + ", " + position.construction();
  embedFunctor = embed.construction();
  kernel.add(functors.norm("AttentionNorm", *first.attentionNorm, *first.qkv));
  if (Error error = add(functors.product("Qkv", *first.qkv, {first.qkvBias})))
    return error;
  kernel.add(scoreFunctor(*first.qk, first.scales, names));
  if (Error error = add(functors.product("Mid", first.projSum ? *first.projSum : *first.proj,
                                         {first.projBias, first.mid}, &first.x())))
    return error;
  kernel.add(functors.norm("MlpNorm", *first.mlpNorm, *first.fc));
  if (Error error = add(functors.product("Fc", *first.fc, {first.fcBias, first.activation})))
    return error;
  if (Error error = add(functors.product("Out", first.fcprojSum ? *first.fcprojSum : *first.fcproj,
                                         {first.fcprojBias, first.out}, first.mid->result())))
    return error;
  Functor lastNorm = functors.lastNorm("LastNorm", *region.lastNorm);
  kernel.add(lastNorm);
  Expected<Functor> logits = functors.logits(region);
  if (!logits)
    return logits.takeError();
  kernel.add(*logits);
  lastFunctors = lastNorm.construction() + ", " + logits->construction();
  return Error::success();
}

std::string DecodeKernel::perLayer(Member ofLayer, bool writes) {
  std::vector<const Value *> values;
  for (const DecodeLayer &layer : region.layers)
    values.push_back(&ofLayer(layer));
  return kernel.array(values, writes);
}

/// Adds a statement, under the ops that it computes; null ones do not count.
void DecodeKernel::statement(const Twine &text, ArrayRef<const Op *> all, unsigned indent) {
  SmallVector<const Op *, 8> ops;
  llvm::copy_if(all, std::back_inserter(ops), [](const Op *op) { return op != nullptr; });
  for (const Op *op : ops)
    lines.push_back({std::string(indent, ' ') + "// " + names.line(*op), op});
  lines.push_back({(Twine(std::string(indent, ' ')) + text).str(), ops.empty() ? nullptr : ops.back()});
}

/// The cache of a layer, by its number.
std::string DecodeKernel::cacheOf(StringRef layer) {
  std::string keys = perLayer([](const DecodeLayer &l) -> const Value & { return l.cache(0); }, true),
              values = perLayer([](const DecodeLayer &l) -> const Value & { return l.cache(1); }, true);
  return ("{" + keys + "[" + layer + "], " + values + "[" + layer + "]}").str();
}

void DecodeKernel::writeLayer(unsigned indent) {
  const std::string cache = cacheOf("layer");
  statement("if (step.hasHeads()) {", {}, indent);
  statement("step.qkv(AttentionNorm{}, Qkv{" + biasOf(&DecodeLayer::qkvBias) + "[layer]});",
            {first.qkv, first.split[0], first.split[1], first.split[2]}, indent + 2);
  statement("step.attention(" + cache + ", Score{});",
            {first.write[0], first.write[1], first.qk, first.softmax, first.pv, first.merge}, indent + 2);
  statement("step.proj();", {first.proj}, indent + 2);
  statement("}", {}, indent);
  statement("step.mid(Mid{" + biasOf(&DecodeLayer::projBias) + "[layer]});", {first.projSum}, indent);
  statement("step.fc(MlpNorm{}, Fc{" + biasOf(&DecodeLayer::fcBias) + "[layer]});", {first.fc}, indent);
  statement("step.fcproj();", {first.fcproj}, indent);
  statement("if (layer + 1 < Config::kLayers)", {}, indent);
  statement("step.loadKeys(" + cacheOf("layer + 1") + ");", {}, indent + 2);
  statement("step.out(Out{" + biasOf(&DecodeLayer::fcprojBias) + "[layer]}, layer == Config::kLayers - 1);",
            {first.fcprojSum}, indent);
}

/// Everything between a token and its logits.
void DecodeKernel::writeToken(unsigned indent) {
  statement("step.embed(" + embedFunctor + ");", {region.embed}, indent);
  statement("step.loadKeys(" + cacheOf("0") + ");", {}, indent);
  statement("for (int layer = 0; layer < Config::kLayers; ++layer) {", {}, indent);
  writeLayer(indent + 2);
  statement("}", {}, indent);
  statement("step.logits(" + lastFunctors + ");", {region.product, region.gather}, indent);
}

std::string DecodeKernel::weights() {
  return weightOf(&DecodeLayer::qkv) + ", " + weightOf(&DecodeLayer::proj) + ", " + weightOf(&DecodeLayer::fc) + ", " +
         weightOf(&DecodeLayer::fcproj) + ", " + kernel.operand(region.lastWeight());
}

void DecodeKernel::writeDecode(StringRef type) {
  statement("DecodeLayers<Config, " + type + "> step(" + kernel.call().extent(region.x().type.shape[0]) + ", " +
            mailboxes() + ");");
  statement("if (step.isProducer())");
  statement("  return step.produce(" + weights() + ");");
  statement("step.begin(" + startFunctors + ");");
  writeToken(2);
  if (region.gather)
    statement("step.awaitLogitsOfRanks();");
}

void DecodeKernel::writeGenerate(StringRef type) {
  Functor &call = kernel.call();
  const std::string rows = call.extent(region.x().type.shape[0]),
                    count = call.extent(Dim(first.attentionNorm->parent()->function()->module().tokensDim()));
  for (const auto &[name, value] : sampling->constants)
    kernel.constant(name, Twine(value));
  // The kernel writes what @decode reads.
  SmallVector<std::string, 8> state = {call.pointer(region.tokens(), /*writes=*/true),
                                       call.pointer(region.positions(), /*writes=*/true)};
  for (const SamplingArgument &argument : ArrayRef(sampling->state).drop_front(2)) {
    kernel.parameter(argument.parameter(), "%" + argument.name);
    state.push_back(argument.name);
  }
  kernel.parameter(sampling->best.parameter(), "%" + sampling->best.name);
  statement("GenerateTokens<Config, " + type + "> step(" + rows + ", " + mailboxes() + ");");
  const std::string &settings = state[2];
  statement("if (!step.isProducer())");
  statement("  step.begin(" + startFunctors + ", " + settings + ");");
  statement("for (int token = 0;; ++token) {");
  statement("  if (step.isProducer()) {");
  statement("    step.produce(token, " + count + ", " + settings + ", " + weights() + ");");
  statement("  } else {");
  writeToken(6);
  statement("  }");
  statement("  if (!step.choose(" + embedFunctor + ", " + names.pointerTo(region.logits()) +
            (region.gather ? "[rank]" : "") + ", {" + llvm::join(state, ", ") + "}, " + sampling->best.name +
            ", token, " + count + "))");
  statement("    return step.end(token, " + count + ", " + settings + ");");
  statement("}");
}

Expected<KernelText> DecodeKernel::write() {
  std::vector<const Op *> ops = region.firstOps;
  llvm::append_range(ops, region.lastOps);
  kernel.computes(std::move(ops));
  addConstants();
  if (Error error = addFunctors())
    return error;
  const std::string type = cxxType(region.dtype()).str();
  kernel.addMailboxesOfRanks();
  if (sampling)
    writeGenerate(type);
  else
    writeDecode(type);
  std::string extents = "l" + std::to_string(region.layers.size()) + "_c" + std::to_string(region.dim()) + "_h" +
                        std::to_string(region.heads());
  return kernel.finish(lines, region.dtype(), extents, type);
}

} // namespace

Expected<KernelText> writeDecodeLayersKernel(const Op &op, const KernelChoice &choice) {
  return DecodeKernel(op, choice, *DecodeRegion::of(op), /*sampling=*/nullptr).write();
}

Expected<KernelText> writeGenerateKernel(const Op &op, const KernelChoice &choice, const SamplingParts &sampling) {
  Expected<KernelText> text = DecodeKernel(op, choice, *DecodeRegion::of(op), &sampling).write();
  if (text)
    text->record.title = choice.family->name.str();
  return text;
}

} // namespace kiln
