// fold-norm-parameters: the weight and bias of a layernorm become part of the weight and bias of the product that
// reads it.
//
//   weight %w   : f32[768,2304] = "w"                 weight %w   : f32[768,2304] = "w" -> scale "g"
//   weight %c   : f32[2304]     = "c"                 weight %c   : f32[2304]     = "c" -> add "b" times "w"[768,2304]
//   %ln = layernorm %x, %g, %b {eps = 1e-05}          %ln = layernorm %x {eps = 1e-05}
//   %mm = matmul %ln, %w                        ->    %mm = matmul %ln, %w
//   %y  = add %mm, %c                                 %y  = add %mm, %c
//
// For (n·g + b)·W + c = n·(g∘W) + (c + b·W), where g∘W is W with row i times element i of g. Both weights are made when
// the model is loaded, in f32 and sums in f64, and rounded once. Kernels then read no parameters of a layernorm, and
// defer-norm can apply its statistics to the sums of a product. A layernorm without a bias leaves the product's alone,
// which may have none. Of a module of several ranks, weight and bias are split by the same columns, and the layernorm's
// are whole.
//
// Refuses: a layernorm that anything but such products reads; a product whose weight or bias others read too, as the
// head reads the embedding table; products without a bias to take a layernorm's; weights that have been scaled,
// transposed or padded before.
#include "ir/Builder.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"

namespace kiln {

namespace {

/// A layernorm with parameters in front of a product.
struct NormedProduct {
  Op *layernorm;
  Op *bias; ///< the add of the product's bias, if the layernorm has a bias; else null

  const Value *addedBias() const { return bias ? bias->operand(1) : nullptr; }
};

/// Whether the value is a tensor of the checkpoint as it is there, but for its type, or this share of its columns.
bool isPlain(const Value &value, size_t rank, const std::optional<RankSplit> &split = std::nullopt) {
  return value.isWeight() && value.type.rank() == rank && !value.recipe->hasSteps() && value.recipe->split == split &&
         !(split && split->ofRows);
}

/// The add of a bias to a matmul, or null.
Op *biasOf(const Op &matmul) {
  Op *add = matmul.result()->hasOneUse() ? matmul.result()->getUsers()[0] : nullptr;
  bool isBiased = add && add->is(OpKind::add) && !add->parentOp() && add->operand(0) == matmul.result();
  return isBiased && isPlain(*add->operand(1), 1, matmul.operand(1)->recipe->split) ? add : nullptr;
}

/// The layernorm and the bias of a matmul, as far as its own operands and users tell.
std::optional<NormedProduct> normedProduct(const Op &op) {
  if (!op.is(OpKind::matmul) || op.boolAttribute("transpose_b") || op.parentOp() || !op.operand(1)->isWeight() ||
      !isPlain(*op.operand(1), 2, op.operand(1)->recipe->split))
    return std::nullopt;
  Op *layernorm = op.operand(0)->definingOp();
  bool isNormed = layernorm && layernorm->is(OpKind::layernorm) && layernorm->operands().size() > 1 &&
                  llvm::all_of(layernorm->operands().drop_front(), [](const Value *v) { return isPlain(*v, 1); });
  if (!isNormed)
    return std::nullopt;
  NormedProduct product{layernorm, nullptr};
  if (layernorm->operands().size() > 2)
    product.bias = biasOf(op);
  bool isComplete = layernorm->operands().size() == 2 || product.bias;
  return isComplete ? std::optional(product) : std::nullopt;
}

/// The matmuls and layernorms to change. At first all that match by themselves; then those go that depend on others
/// that have gone, until all that are left agree.
class Folding {
public:
  explicit Folding(Module &module) {
    for (const auto &function : module.functions)
      for (const auto &op : function->body.ops())
        if (auto product = normedProduct(*op))
          products[op.get()] = *product;
    auto isUnsupported = [&](const auto &entry) { return !isSupported(*entry.first, entry.second); };
    while (std::erase_if(products, isUnsupported) > 0) {
    }
  }

  void apply() {
    DenseSet<Op *> layernorms;
    for (auto &[matmul, product] : products) {
      changeRecipes(*matmul->operand(1), product);
      layernorms.insert(product.layernorm);
    }
    for (Op *layernorm : layernorms)
      dropParameters(*layernorm);
  }

private:
  const NormedProduct *find(const Op *matmul) const {
    auto it = products.find(matmul);
    return it == products.end() ? nullptr : &it->second;
  }

  /// Whether everything that reads the layernorm, the weight and the bias is one of `products`, with the same others.
  bool isSupported(const Op &matmul, const NormedProduct &product) const {
    const Value &weight = *matmul.operand(1), *bias = product.addedBias();
    auto agrees = [&](const Op *user) {
      const NormedProduct *other = find(user);
      return other && other->addedBias() == bias &&
             other->layernorm->operands().drop_front() == product.layernorm->operands().drop_front() &&
             user->operand(1) == &weight;
    };
    auto isBias = [&](const Op *user) {
      const Op *producer = user->operand(0)->definingOp();
      return user->is(OpKind::add) && user->operand(0) != bias && producer && agrees(producer);
    };
    return llvm::all_of(product.layernorm->result()->getUsers(), [&](const Op *user) { return find(user); }) &&
           llvm::all_of(weight.getUsers(), agrees) && (!bias || llvm::all_of(bias->getUsers(), isBias));
  }

  static void changeRecipes(Value &weight, const NormedProduct &product) {
    const Op &layernorm = *product.layernorm;
    if (product.bias)
      product.bias->operand(1)->recipe->add = {layernorm.operand(2)->recipe->source, weight.recipe->source,
                                               weight.recipe->sourceShape};
    weight.recipe->scale = layernorm.operand(1)->recipe->source;
  }

  static void dropParameters(Op &layernorm) {
    Builder builder(opTable(), &layernorm);
    builder.loc = layernorm.loc;
    std::string name = layernorm.result()->name;
    layernorm.result()->name.clear(); // its successor gets the name
    Value *normed = builder.create(OpKind::layernorm, name, {layernorm.operand(0)}, layernorm.attributes());
    layernorm.result()->replaceAllUsesWith(normed);
    layernorm.erase();
  }

  std::map<const Op *, NormedProduct> products;
};

} // namespace

static Error foldNormParameters(Module &module, const PassOptions &) {
  Folding(module).apply();
  return Error::success();
}

const PassDef foldNormParametersPass = {
    .name = "fold-norm-parameters",
    .summary = "Makes the weight and bias of layernorms part of those of the products that read them",
    .run = foldNormParameters,
};

} // namespace kiln
