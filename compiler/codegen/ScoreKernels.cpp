// Kernels whose results are log-probabilities of tokens and the best tokens of rows of logits.
#include "codegen/KernelText.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/matmul/TokenScores.h"
#include "ops/Region.h"

namespace kiln {

/// Whether the op's kernel stores the result of one of its ops.
static bool isStored(const Op &op, const Op &inner) {
  return &inner == &op || llvm::is_contained(op.region()->terminator()->operands(), inner.result());
}

/// Declares the functor that knows each row's target and stores the row's results.
static Functor scoreEpilogue(const Op &op, const KernelNames &names, const TokenScores &scores) {
  Functor epilogue("Epilogue", names);
  std::string target = scores.ofTarget ? epilogue.pointer(*scores.ofTarget->operand(1)) + "[row]" : "-1";
  epilogue.add("KILN_DEVICE int target(int row) const { return " + target + "; }");
  epilogue.add("KILN_DEVICE void operator()(const TokenScores &found, int row) const {");
  for (auto [inner, field] :
       {std::pair(scores.ofTarget, "ofTarget"), {scores.best, "best"}, {scores.ofBest, "ofBest"}}) {
    if (!inner)
      continue;
    std::string store =
        isStored(op, *inner) ? epilogue.pointer(*inner->result(), true) + "[row] = found." + field + "; " : "";
    epilogue.add("  " + store + "// " + names.line(*inner), inner);
  }
  epilogue.add("}");
  return epilogue;
}

Expected<KernelText> writeTensorScoreKernel(const Op &op, const KernelChoice &choice) {
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  kernel.addWorkspace("RowScore");
  return writeTensorProduct(op, choice, kernel, scoreEpilogue(op, names, *tokenScores(op)));
}

Expected<KernelText> writeScoreRowsKernel(const Op &op, const KernelChoice &choice) {
  KernelNames names(op, *choice.family);
  KernelAssembler kernel(op, choice, names);
  const TokenScores scores = *tokenScores(op);
  const Type &type = scores.logits->type;
  std::string cols = type.lastDim().str();
  kernel.constant("kCols", cols);
  Functor input("Input", names);
  input.add("KILN_DEVICE float operator()(int row, int col) const {");
  input.add("  return toFloat(" + input.pointer(*scores.logits) + "[i64(row) * " + cols + " + col]);");
  input.add("}");
  Functor epilogue = scoreEpilogue(op, names, scores);
  kernel.add(input);
  kernel.add(epilogue);
  std::string statement =
      choice.family->body.str() + "<Config>(" + input.construction() + ", " + epilogue.construction() + ");";
  return kernel.finish(statement, type.dtype, "n" + cols);
}

} // namespace kiln
