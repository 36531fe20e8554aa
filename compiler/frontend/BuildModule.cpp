#include "frontend/BuildModule.h"

#include "ir/Builder.h"
#include "ops/OpTable.h"

#include <cmath>

namespace kiln {

namespace {

/// Emits the weights once, then each function, which uses them.
class ModuleBuilder {
public:
  ModuleBuilder(const ModelConfig &config, const BuildOptions &options, SourceManager &sources)
      : config(config), sources(sources), module(std::make_unique<Module>(config.name)) {
    batch = module->addDim("B", 1, options.maxBatch);
    tokens = module->addDim("T", 1, config.positions.value);
  }

  std::unique_ptr<Module> build() {
    setAttributes();
    addWeights();
    buildPrefill();
    buildScore();
    return std::move(module);
  }

private:
  void setAttributes();
  void addWeights();
  void buildPrefill();
  void buildScore();
  Value *buildLayers(Builder &builder, Value *ids);
  Value *buildAttention(Builder &builder, Value *x, int64_t layer);
  Value *buildMlp(Builder &builder, Value *x, int64_t layer);
  Value *buildLayernorm(Builder &builder, Value *x, StringRef name, StringRef suffix);
  Value *buildLinear(Builder &builder, Value *x, StringRef name, StringRef suffix);
  Value *buildLogits(Builder &builder, Value *x);

  Value *weight(StringRef name, ArrayRef<int64_t> shape, StringRef source);
  void addNormWeights(StringRef name, StringRef suffix, StringRef source);
  void addLinearWeights(StringRef name, StringRef suffix, int64_t in, int64_t out, StringRef source);

  template <class T> Location at(const Setting<T> &setting) {
    SmallString<64> name = llvm::sys::path::filename(setting.loc.file->name);
    if (name == "config.json") {
      StringRef folder = llvm::sys::path::filename(llvm::sys::path::parent_path(setting.loc.file->name));
      if (!folder.empty() && folder != "." && folder != "..")
        name = (folder + "/config.json").str();
    }
    return {sources.reference(name), setting.loc.line, setting.loc.column};
  }

  const ModelConfig &config;
  SourceManager &sources;
  std::unique_ptr<Module> module;
  Dim batch = 1, tokens = 1;
};

std::string layerSuffix(int64_t layer) { return "." + std::to_string(layer); }

void ModuleBuilder::setAttributes() {
  Attribute::List eos;
  for (int64_t id : config.eosTokens)
    eos.emplace_back(id);
  module->attributes = {{ModuleAttribute::batch.str(), Attribute::ident(batch.str())},
                        {ModuleAttribute::context.str(), config.positions.value},
                        {ModuleAttribute::eos.str(), std::move(eos)},
                        {ModuleAttribute::layers.str(), config.layers.value},
                        {ModuleAttribute::tokens.str(), Attribute::ident(tokens.str())},
                        {ModuleAttribute::vocab.str(), config.vocabSize.value}};
}

//===----------------------------------------------------------------------===//
// Weights, under their names in a Hugging Face checkpoint
//===----------------------------------------------------------------------===//

Value *ModuleBuilder::weight(StringRef name, ArrayRef<int64_t> shape, StringRef source) {
  WeightRecipe recipe;
  recipe.source = source.str();
  recipe.sourceShape.assign(shape.begin(), shape.end());
  recipe.shape = recipe.sourceShape;
  SmallVector<Dim, 2> dims(shape.begin(), shape.end());
  return module->addWeight(name, Type(DType::F32, dims), std::move(recipe));
}

void ModuleBuilder::addNormWeights(StringRef name, StringRef suffix, StringRef source) {
  weight((name + "_w" + suffix).str(), {config.channels.value}, (source + ".weight").str());
  if (config.hasBiases.value)
    weight((name + "_b" + suffix).str(), {config.channels.value}, (source + ".bias").str());
}

void ModuleBuilder::addLinearWeights(StringRef name, StringRef suffix, int64_t in, int64_t out, StringRef source) {
  weight((name + "_w" + suffix).str(), {in, out}, (source + ".weight").str());
  if (config.hasBiases.value)
    weight((name + "_b" + suffix).str(), {out}, (source + ".bias").str());
}

void ModuleBuilder::addWeights() {
  int64_t channels = config.channels.value;
  weight("wte", {config.vocabSize.value, channels}, "wte.weight");
  weight("wpe", {config.positions.value, channels}, "wpe.weight");
  for (int64_t layer = 0; layer < config.layers.value; ++layer) {
    std::string suffix = layerSuffix(layer), source = "h" + suffix;
    addNormWeights("ln_1", suffix, source + ".ln_1");
    addLinearWeights("qkv", suffix, channels, 3 * channels, source + ".attn.c_attn");
    addLinearWeights("proj", suffix, channels, channels, source + ".attn.c_proj");
    addNormWeights("ln_2", suffix, source + ".ln_2");
    addLinearWeights("fc", suffix, channels, config.inner.value, source + ".mlp.c_fc");
    addLinearWeights("fcproj", suffix, config.inner.value, channels, source + ".mlp.c_proj");
  }
  addNormWeights("ln_f", "", "ln_f");
  if (!config.tiedEmbeddings.value)
    weight("lm_head", {config.vocabSize.value, channels}, "lm_head.weight");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void ModuleBuilder::buildPrefill() {
  Function *function = module->addFunction(entryName(Entry::Prefill));
  Value *ids = function->addArgument("tokens", Type(DType::I32, {batch, tokens}), {});
  Value *lengths = function->addArgument("lengths", Type(DType::I32, {batch}), {});
  Builder builder(opTable(), function->body);
  Value *x = buildLayers(builder, ids);
  x = buildLayernorm(builder, x, "ln_f", "");
  Value *last = builder.create(OpKind::lastRow, "last", {x, lengths});
  Value *logits = buildLogits(builder, last);
  builder.createTerminator(OpKind::ret, {logits});
  function->resultTypes = {logits->type};
}

void ModuleBuilder::buildScore() {
  Function *function = module->addFunction(entryName(Entry::Score));
  Value *ids = function->addArgument("tokens", Type(DType::I32, {batch, tokens}), {});
  Value *targets = function->addArgument("targets", Type(DType::I32, {batch, tokens}), {});
  Builder builder(opTable(), function->body);
  Value *x = buildLayers(builder, ids);
  x = buildLayernorm(builder, x, "ln_f", "");
  Value *logits = buildLogits(builder, x);
  Value *ofTarget = builder.create(OpKind::logProbability, "log_prob", {logits, targets});
  Value *best = builder.create(OpKind::argmax, "best", {logits});
  Value *ofBest = builder.create(OpKind::logProbability, "best_log_prob", {logits, best});
  builder.createTerminator(OpKind::ret, {ofTarget, best, ofBest});
  function->resultTypes = {ofTarget->type, best->type, ofBest->type};
}

Value *ModuleBuilder::buildLayers(Builder &builder, Value *ids) {
  builder.loc = at(config.vocabSize);
  Value *x = builder.create(OpKind::embed, "x.0", {ids, module->findWeight("wte"), module->findWeight("wpe")});
  for (int64_t layer = 0; layer < config.layers.value; ++layer) {
    x = buildAttention(builder, x, layer);
    x = buildMlp(builder, x, layer);
  }
  return x;
}

Value *ModuleBuilder::buildLayernorm(Builder &builder, Value *x, StringRef name, StringRef suffix) {
  builder.loc = at(config.epsilon);
  SmallVector<Value *, 3> operands = {x, module->findWeight((name + "_w" + suffix).str())};
  if (config.hasBiases.value)
    operands.push_back(module->findWeight((name + "_b" + suffix).str()));
  return builder.create(OpKind::layernorm, (name + suffix).str(), operands, {{"eps", config.epsilon.value}});
}

Value *ModuleBuilder::buildLinear(Builder &builder, Value *x, StringRef name, StringRef suffix) {
  Value *matrix = module->findWeight((name + "_w" + suffix).str());
  if (!config.hasBiases.value)
    return builder.create(OpKind::matmul, (name + suffix).str(), {x, matrix});
  Value *product = builder.create(OpKind::matmul, (name + "_mm" + suffix).str(), {x, matrix});
  return builder.create(OpKind::add, (name + suffix).str(),
                        {product, module->findWeight((name + "_b" + suffix).str())});
}

Value *ModuleBuilder::buildAttention(Builder &builder, Value *x, int64_t layer) {
  std::string suffix = layerSuffix(layer);
  Value *normed = buildLayernorm(builder, x, "ln_1", suffix);
  builder.loc = at(config.channels);
  Value *qkv = buildLinear(builder, normed, "qkv", suffix);

  builder.loc = at(config.heads);
  auto part = [&](StringRef name, int64_t index) {
    return builder.create(OpKind::splitHeads, (name + suffix).str(), {qkv},
                          {{"heads", config.heads.value}, {"part", index}, {"parts", 3}});
  };
  Value *q = part("q", 0), *k = part("k", 1), *v = part("v", 2);
  Value *scores = builder.create(OpKind::qk, "scores" + suffix, {q, k});
  double factor = config.scaleByHeadSize.value ? 1 / std::sqrt(static_cast<double>(config.headSize())) : 1;
  if (config.scaleByLayer.value)
    factor /= static_cast<double>(layer + 1);
  if (factor != 1) {
    builder.loc = config.scaleByLayer.value ? at(config.scaleByLayer) : at(config.scaleByHeadSize);
    scores = builder.create(OpKind::scale, "scaled" + suffix, {scores}, {{"factor", factor}});
  }
  builder.loc = at(config.heads);
  Value *masked = builder.create(OpKind::causalMask, "masked" + suffix, {scores});
  Value *probabilities = builder.create(OpKind::softmax, "probs" + suffix, {masked});
  Value *context = builder.create(OpKind::pv, "context" + suffix, {probabilities, v});
  Value *merged = builder.create(OpKind::mergeHeads, "attn" + suffix, {context});

  builder.loc = at(config.channels);
  Value *projected = buildLinear(builder, merged, "proj", suffix);
  return builder.create(OpKind::add, "mid" + suffix, {projected, x});
}

Value *ModuleBuilder::buildMlp(Builder &builder, Value *x, int64_t layer) {
  std::string suffix = layerSuffix(layer);
  Value *normed = buildLayernorm(builder, x, "ln_2", suffix);
  builder.loc = at(config.inner);
  Value *hidden = buildLinear(builder, normed, "fc", suffix);
  builder.loc = at(config.activation);
  const Activation &activation = config.activation.value;
  hidden = builder.create(activation.op, "act" + suffix, {hidden}, activation.attributes);
  builder.loc = at(config.inner);
  Value *projected = buildLinear(builder, hidden, "fcproj", suffix);
  return builder.create(OpKind::add, "x" + layerSuffix(layer + 1), {projected, x});
}

Value *ModuleBuilder::buildLogits(Builder &builder, Value *x) {
  builder.loc = config.tiedEmbeddings.value ? at(config.vocabSize) : at(config.tiedEmbeddings);
  Value *head = module->findWeight(config.tiedEmbeddings.value ? "wte" : "lm_head");
  return builder.create(OpKind::matmul, "logits", {x, head}, {{"out", Attribute::ident("f32")}, {"transpose_b", true}});
}

} // namespace

std::unique_ptr<Module> buildModule(const ModelConfig &config, const BuildOptions &options, SourceManager &sources) {
  return ModuleBuilder(config, options, sources).build();
}

} // namespace kiln
