// The family of matrix products that cuBLASLt runs: steps of the plan without a kernel.
#include "kernels/families/matmul/LibraryMatmul.h"

#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

#include <cmath>

namespace kiln {

namespace {

bool isProduct(const Op &product) {
  const Value &weight = *product.operand(1);
  const Type &a = product.operand(0)->type, &out = product.result()->type;
  return product.is(OpKind::matmul) && !product.attribute("precision") && product.boolAttribute("transpose_b") &&
         weight.isWeight() && weight.type.dtype == a.dtype && out.dtype == a.dtype &&
         weight.type.shape[0].asConstant() && weight.type.lastDim().asConstant() && !hasFewTokens(product, out);
}

/// The other operand of an add that reads `value`.
Value *addedTo(const Op &add, const Value &value) { return add.operand(add.operand(0) == &value ? 1 : 0); }

/// Adds one op after the product to the description, if the library supports it there.
bool takeEpilogue(const Op &op, LibraryMatmul &matmul) {
  if (op.operand(0) != matmul.out && op.operandOrNull(1) != matmul.out)
    return false;
  bool isLast = matmul.gelu || matmul.residual;
  if (op.is(OpKind::gelu) && op.identAttribute("approx", "tanh") == "tanh" && !isLast) {
    matmul.gelu = true;
  } else if (op.is(OpKind::add) && !isLast) {
    Value *other = addedTo(op, *matmul.out);
    if (other->isWeight() && other->type.rank() == 1 && !matmul.bias)
      matmul.bias = other;
    else if (other->type == op.result()->type &&
             (!other->definingOp() || other->definingOp()->parentOp() != op.parentOp()))
      matmul.residual = other;
    else
      return false;
  } else {
    return false;
  }
  matmul.out = op.result();
  return op.result()->type.dtype == matmul.a->type.dtype;
}

} // namespace

std::optional<LibraryMatmul> libraryMatmul(const Op &op) {
  const Op *product = anchor(op);
  if (op.results().size() != 1 || !product || !product->is(OpKind::matmul) || !isProduct(*product))
    return std::nullopt;
  LibraryMatmul matmul{product->operand(0), product->operand(1), product->result()};
  if (!op.region())
    return matmul;
  for (const auto &inner : op.region()->ops()) {
    if (inner.get() == product)
      continue;
    if (inner->has(Trait::Terminator))
      break;
    if (!takeEpilogue(*inner, matmul))
      return std::nullopt;
  }
  return op.region()->terminator()->operand(0) == matmul.out ? std::optional(matmul) : std::nullopt;
}

bool isLibraryBatched(const Op &op) {
  bool isProduct = (op.is(OpKind::qk) || op.is(OpKind::pv)) && !op.attribute("precision");
  if (!isProduct)
    return false;
  DType dtype = op.operand(0)->type.dtype, out = op.result()->type.dtype;
  return dtype == op.operand(1)->type.dtype && (out == dtype || out == DType::F32);
}

static bool accepts(const Op &op, const Target &, const DimBinding &) {
  std::optional<LibraryMatmul> matmul = libraryMatmul(op);
  return matmul && (!matmul->bias || matmul->bias->type.dtype == matmul->out->type.dtype);
}

static double estimate(const Op &op, const Tile &, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double rows = valueAt(problem.rows, dims), cols = valueAt(problem.cols, dims), depth = valueAt(problem.depth, dims);
  bool isF32 = anchor(op)->operand(1)->type.dtype == DType::F32;
  // The library's kernels compute tiles of 128 × 128, which fill the multiprocessors in waves.
  double rate = target.times.library.rate * (isF32 ? target.f32Rate : target.tensorRate);
  double tiles = std::ceil(rows / 128) * std::ceil(cols / 128) * static_cast<double>(valueAt(problem.batch, dims));
  double waves = std::ceil(tiles / target.multiprocessors) * target.multiprocessors;
  double memory = bytesMovedAt(op, dims) / target.memoryRate;
  // Nothing hides the first and last tiles of a launch.
  return target.launchSeconds + target.times.library.ends + std::max(waves * 2 * 128 * 128 * depth / rate, memory);
}

double librarySpeedup(const Op &op, const Target &target, const DimBinding &dims) {
  const KernelFamily *generated = selectFamily(op, target, boundsToChooseFor(op));
  if (!generated)
    return INFINITY;
  double best = INFINITY;
  for (const Tile &tile : generated->configurations(op, target, boundsToChooseFor(op)))
    best = std::min(best, generated->estimate(op, tile, target, dims));
  return best / estimate(op, {}, target, dims);
}

/// The size that NVIDIA recommends for Hopper.
static Expr workspace(const Op &, const Tile &) { return {32 << 20}; }

const KernelFamily libraryMatmulFamily = {
    .name = "cublaslt_matmul",
    .summary = "matrix product of a prompt in cuBLASLt, with bias, gelu and residual",
    .header = "",
    .body = "",
    .form = KernelForm::Library,
    .byRequestOnly = true,
    .accepts = accepts,
    .configurations = [](const Op &, const Target &, const DimBinding &) { return std::vector<Tile>(1); },
    .isSound = anyTile,
    .launch = [](const Op &, const Tile &) { return Launch(); },
    .estimate = estimate,
    .workspace = workspace,
};

const KernelFamily libraryBatchedFamily = {
    .name = "cublaslt_batched",
    .summary = "one product a head, all of them as a strided batch in cuBLASLt",
    .header = "",
    .body = "",
    .form = KernelForm::Library,
    .byRequestOnly = true,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return isLibraryBatched(op); },
    .configurations = [](const Op &, const Target &, const DimBinding &) { return std::vector<Tile>(1); },
    .isSound = anyTile,
    .launch = [](const Op &, const Tile &) { return Launch(); },
    .estimate = estimate,
    .workspace = workspace,
};

} // namespace kiln
