// All layers of decode in one kernel: the phases of decode/layers.cuh, one after the other, each under the ops that it
// computes. Layers differ in parameters only, so the text has those of the first one, in a loop.
#include "codegen/KernelText.h"
#include "codegen/SamplingFunctions.h"
#include "kernels/families/DecodeRegion.h"

namespace kiln {

namespace {

/// Writes the functors of a phase, which take two neighbouring columns at a time.
class PhaseFunctors {
public:
  PhaseFunctors(const Op &op, const KernelNames &names) : op(op), names(names) {}

  Functor token(const Op &embed) const;
  Functor embed(const Op &embed, bool prefetches) const;
  Functor norm(StringRef name, const Op &layernorm, const Op &product) const;
  Functor lastNorm(StringRef name, const Op &layernorm) const;
  /// `product`: the op whose result the template gives, a product or the sum of all ranks' products.
  Expected<Functor> product(StringRef name, const Op &product, ArrayRef<const Op *> behind,
                            const Value *residual = nullptr) const;
  Expected<Functor> logits(const DecodeRegion &region) const;

private:
  Functor sharedLogits(const DecodeRegion &region) const;

  /// Declares what the functor loads for two columns, before it is needed.
  static void addOperands(Functor &functor, ArrayRef<EpilogueEmitter::Ahead> ahead);

  const Op &op;
  const KernelNames &names;
};

void PhaseFunctors::addOperands(Functor &functor, ArrayRef<EpilogueEmitter::Ahead> ahead) {
  if (ahead.empty()) {
    functor.add("struct Operands {};");
    functor.add("KILN_DEVICE Operands operands(int) const { return {}; }");
    return;
  }
  SmallVector<std::string, 2> loads;
  functor.add("static constexpr int V = 2;");
  functor.add("struct Operands {");
  for (const EpilogueEmitter::Ahead &operand : ahead) {
    functor.add("  " + operand.type + " " + operand.name + ";");
    loads.push_back(operand.load);
  }
  functor.add("};");
  functor.add("KILN_DEVICE Operands operands(int col) const { return {" + llvm::join(loads, ", ") + "}; }");
}

Functor PhaseFunctors::token(const Op &embed) const {
  Functor functor("Token", names);
  functor.add("KILN_DEVICE int operator()(int row) const { return " + functor.pointer(*embed.operand(0)) + "[row]; }");
  return functor;
}

/// With `prefetches`, also asks for what it reads of a line of the cache, from `col` on.
Functor PhaseFunctors::embed(const Op &embed, bool prefetches) const {
  Functor functor("Embed", names);
  functor.add("KILN_DEVICE Vec<float, 2> operator()(int token, int position, int col) const {");
  functor.add("  return " + embeddedSum(functor, embed, "token", "position", "2") + "; // " + names.line(embed),
              &embed);
  functor.add("}");
  if (!prefetches)
    return functor;
  const EmbeddedPlaces at = embeddedPlaces(functor, embed, "token", "position");
  functor.add("KILN_DEVICE void prefetch(int token, int position, int col) const {");
  functor.add("  prefetchLine(" + at.token + ");");
  functor.add("  prefetchLine(" + at.position + ");");
  functor.add("}");
  return functor;
}

/// A layernorm without parameters, of the row with which `product` multiplies, done on the product's sums.
Functor PhaseFunctors::norm(StringRef name, const Op &layernorm, const Op &product) const {
  Functor functor(name, names);
  std::string sums = names.of(*product.result()).str(), weights = names.of(*product.operand(1)).str();
  functor.add("static constexpr float kEps = " + layernorm.attribute("eps")->str() + "f;");
  functor.add("KILN_DEVICE Vec<float, 2> operator()(Vec<float, 2> " + sums + ", Vec<float, 2> " + weights +
              ", float mean, float rstd) const {");
  functor.add("  return (" + sums + " - " + weights + " * mean) * rstd; // " + names.line(layernorm), &layernorm);
  functor.add("}");
  return functor;
}

Functor PhaseFunctors::lastNorm(StringRef name, const Op &layernorm) const {
  Functor functor(name, names);
  functor.add("static constexpr float kEps = " + layernorm.attribute("eps")->str() + "f;");
  std::vector<EpilogueEmitter::Ahead> parameters;
  std::string apply;
  for (unsigned i = 1; i < layernorm.operands().size(); ++i) {
    const Value &parameter = *layernorm.operand(i);
    std::string pointer = functor.pointer(parameter);
    apply += (i == 1 ? " * with." : " + with.") + pointer + ".unpack()";
    if (llvm::none_of(parameters, [&](const auto &known) { return known.name == pointer; }))
      parameters.push_back({("Packed<" + cxxType(parameter.type.dtype) + ", V>").str(), pointer,
                            "kiln::loadPacked<V>(" + pointer + " + col)"});
  }
  addOperands(functor, parameters);
  std::string x = names.of(*layernorm.operand(0)).str(), result = names.of(*layernorm.result()).str();
  functor.add("KILN_DEVICE Vec<float, 2> operator()(Vec<float, 2> " + x + ", float mean, float rstd, const Operands &" +
              (parameters.empty() ? "" : "with") + ") const {");
  functor.add("  const auto " + result + " = (" + x + " - mean) * rstd" + apply + "; // " + names.line(layernorm),
              &layernorm);
  functor.add("  return " + result + ";");
  functor.add("}");
  return functor;
}

Expected<Functor> PhaseFunctors::product(StringRef name, const Op &product, ArrayRef<const Op *> behind,
                                         const Value *residual) const {
  Functor functor(name, names);
  EpilogueEmitter emitter(functor, names, op, 2);
  emitter.readAhead();
  const Coordinates at = matmulCoordinates(product.result()->type);
  emitter.begin(*product.result(), at);
  if (residual)
    emitter.begin(*residual, at);
  for (const Op *next : behind)
    if (Error error = emitter.emit(*next))
      return error;
  addOperands(functor, emitter.ahead());
  std::string x = residual ? "Vec<float, 2> " + names.of(*residual).str() + ", " : "";
  functor.add("KILN_DEVICE Vec<float, 2> operator()(Vec<float, 2> " + names.of(*product.result()) + ", " + x +
              "const Operands &with) const {");
  functor.add(emitter.text());
  functor.add("  return " + names.of(*behind.back()->result()) + ";");
  functor.add("}");
  return functor;
}

/// Writes logits of a rank's share of the vocabulary to where they belong in the rows of all ranks.
Functor PhaseFunctors::sharedLogits(const DecodeRegion &region) const {
  Functor functor("Logits", names);
  const int64_t size = region.gather->intAttribute("size"), ranks = region.ranks();
  const std::string share = names.of(*region.product->result()).str(),
                    all = functor.pointersOfRanks(region.logits(), ranks, /*writes=*/true);
  functor.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + share + ", int row, int col) const {");
  functor.add("  const int first = " + firstOfShare(functor, size, ranks) +
              ", count = " + countOfShare(functor, size, ranks) + ";");
  functor.add("  if (col < count)");
  functor.add("    store(" + all + " + (i64(row) * " + Twine(size) + " + first + col), " + share + "); // " +
                  names.line(*region.gather),
              region.gather);
  functor.add("}");
  return functor;
}

Expected<Functor> PhaseFunctors::logits(const DecodeRegion &region) const {
  if (region.gather)
    return sharedLogits(region);
  Functor functor("Logits", names);
  EpilogueEmitter emitter(functor, names, op, 2);
  emitter.begin(*region.product->result(), matmulCoordinates(region.product->result()->type));
  if (region.slice)
    if (Error error = emitter.emit(*region.slice))
      return error;
  functor.add("template <int V> KILN_DEVICE void operator()(Vec<float, V> " + names.of(*region.product->result()) +
              ", int row, int col) const {");
  functor.add(emitter.text());
  functor.add("}");
  return functor;
}

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
  Error addFunctors(bool prefetchesTokens);
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
  void writeGenerate(const SamplingParts &sampling, StringRef type);

  const DecodeRegion &region;
  const DecodeLayer &first;
  const SamplingParts *sampling;
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

Error DecodeKernel::addFunctors(bool prefetchesTokens) {
  Functor token = functors.token(*region.embed), position = positionFunctor(*first.mask, names),
          embed = functors.embed(*region.embed, prefetchesTokens);
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

void DecodeKernel::writeGenerate(const SamplingParts &sampling, StringRef type) {
  Functor &call = kernel.call();
  const std::string rows = call.extent(region.x().type.shape[0]),
                    count = call.extent(Dim(first.attentionNorm->parent()->function()->module().tokensDim()));
  for (const auto &[name, value] : sampling.constants)
    kernel.constant(name, Twine(value));
  // The kernel writes what @decode reads.
  SmallVector<std::string, 8> state = {call.pointer(region.tokens(), /*writes=*/true),
                                       call.pointer(region.positions(), /*writes=*/true)};
  for (const SamplingArgument &argument : ArrayRef(sampling.state).drop_front(2)) {
    kernel.parameter(argument.parameter(), "%" + argument.name);
    state.push_back(argument.name);
  }
  kernel.parameter(sampling.best.parameter(), "%" + sampling.best.name);
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
            (region.gather ? "[rank]" : "") + ", {" + llvm::join(state, ", ") + "}, " + sampling.best.name +
            ", token, " + count + "))");
  statement("    return step.end(token, " + count + ", " + settings + ");");
  statement("}");
}

Expected<KernelText> DecodeKernel::write() {
  std::vector<const Op *> ops = region.firstOps;
  llvm::append_range(ops, region.lastOps);
  kernel.computes(std::move(ops));
  addConstants();
  if (Error error = addFunctors(/*prefetchesTokens=*/sampling != nullptr))
    return error;
  const std::string type = cxxType(region.dtype()).str();
  kernel.addMailboxesOfRanks();
  if (sampling)
    writeGenerate(*sampling, type);
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
