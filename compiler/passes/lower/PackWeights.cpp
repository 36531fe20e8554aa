// pack-weights: lays weights out as kernels read them.
//
//   weight %w   : f32[768,2304] = "w"             weight %w   : f32[2304,768] = "w"[768,2304] -> transpose
//   %mm = matmul %x, %w                      ->   %mm = matmul %x, %w {transpose_b = true}
//
//   weight %wte : f32[50257,768] = "wte"          weight %wte : f32[50304,768] = "wte"[50257,768] -> pad
//   %l  = matmul %x, %wte {transpose_b = true} -> %l_pad = matmul %x, %wte {transpose_b = true}
//                                                 %l     = slice %l_pad {size = 50257}
//
// Output columns become rows: one warp of a matrix-vector kernel reads a contiguous row, and tensor cores need their
// second operand in this layout. option pad: output columns are padded with zero weights to a multiple of it when they
// are no multiple of 8 (a vocabulary of 50257), so that rows of tiles are whole; 0 leaves them.
//
// Refuses: weights that another kind of op reads in the layout to change (a padded embedding table is fine: no token
// id reaches the padding), and weights that are packed already.
#include "ir/Builder.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

static bool allUsers(const Value &weight, function_ref<bool(const Op &)> accept) {
  return llvm::all_of(weight.getUsers(), [&](const Op *op) { return accept(*op); });
}

static bool isMatmulOf(const Op &op, const Value &weight, bool transposed) {
  return op.is(OpKind::matmul) && op.operand(1) == &weight && op.operand(0) != &weight &&
         op.boolAttribute("transpose_b") == transposed;
}

static void transposeWeight(Value &weight) {
  std::swap(weight.type.shape[0], weight.type.shape[1]);
  std::swap(weight.recipe->shape[0], weight.recipe->shape[1]);
  weight.recipe->transpose = true;
  for (Op *user : weight.getUsers())
    user->setAttribute("transpose_b", true);
}

/// The names of each function for which they were needed so far.
using NamesByFunction = std::map<const Function *, TakenNames>;

/// Pads the rows of a [cols, depth] weight and drops the new columns after every matmul.
static void padRows(Value &weight, int64_t multiple, NamesByFunction &namesByFunction) {
  int64_t rows = *weight.type.shape[0].asConstant();
  int64_t padded = (rows + multiple - 1) / multiple * multiple;
  weight.type.shape[0] = padded;
  weight.recipe->shape[0] = padded;
  weight.recipe->pad = true;
  for (Op *user : SmallVector<Op *, 4>(weight.getUsers())) {
    if (!user->is(OpKind::matmul))
      continue;
    const Function &function = *user->parent()->function();
    TakenNames &names = namesByFunction.try_emplace(&function, function).first->second;
    Value *wide = user->result();
    std::string name = wide->name;
    wide->type.shape.back() = padded;
    SmallVector<Op *, 4> readers(wide->getUsers());
    Builder builder(opTable(), user->next());
    builder.loc = user->loc;
    wide->name = names.unique(withEnding(name, "_pad"));
    Value *narrow = builder.create(OpKind::slice, name, {wide}, {{"size", rows}});
    for (Op *reader : readers)
      for (unsigned i = 0; i < reader->operands().size(); ++i)
        if (reader->operand(i) == wide)
          reader->setOperand(i, narrow);
  }
}

static Error packWeights(Module &module, const PassOptions &options) {
  int64_t multiple = options.getInt("pad");
  NamesByFunction namesByFunction;
  for (const auto &entry : module.weights) {
    Value &weight = *entry;
    if (weight.type.rank() != 2 || weight.recipe->transpose || weight.recipe->pad || weight.getUsers().empty())
      continue;
    if (allUsers(weight, [&](const Op &op) { return isMatmulOf(op, weight, false); }))
      transposeWeight(weight);
    bool isRowPacked = allUsers(weight, [&](const Op &op) {
      return isMatmulOf(op, weight, true) || (op.is(OpKind::embed) && op.operand(1) == &weight);
    });
    bool isMultiplied = llvm::any_of(weight.getUsers(), [](const Op *op) { return op->is(OpKind::matmul); });
    if (multiple > 0 && isRowPacked && isMultiplied && *weight.type.shape[0].asConstant() % 8 != 0)
      padRows(weight, multiple, namesByFunction);
  }
  for (const auto &function : module.functions)
    if (Error error = refreshTypes(function->body))
      return error;
  return Error::success();
}

const PassDef packWeightsPass = {
    .name = "pack-weights",
    .summary = "Transposes and pads weights into the layout that kernels read",
    .run = packWeights,
    .options =
        {{"pad", 64, "pad output columns to a multiple of this where they are no multiple of 8; 0: never", {}, 4096}},
};

} // namespace kiln
