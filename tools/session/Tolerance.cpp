#include "tools/session/Tolerance.h"

#include <cmath>

namespace kiln {

namespace {

struct Row {
  double unit;        ///< the largest relative error of rounding
  double small, gpt2; ///< allowed error of logits, as a share of the largest
};

} // namespace

static const Row &rowOf(DType dtype, bool roundsFactors) {
  static const Row f32 = {0, 1e-5, 1e-4}, tf32 = {std::ldexp(1, -10), 0.01, 0.01},
                   f16 = {std::ldexp(1, -11), 0.005, 0.01}, bf16 = {std::ldexp(1, -8), 0.04, 0.05};
  switch (dtype) {
  case DType::BF16:
    return bf16;
  case DType::F16:
    return f16;
  default:
    return roundsFactors ? tf32 : f32;
  }
}

StepTolerance stepTolerance(DType dtype, bool roundsFactors) {
  const bool is16Bit = dtype == DType::BF16 || dtype == DType::F16;
  const double unit = is16Bit ? rowOf(dtype, false).unit : 0;
  return {unit, 1e-5 + 2 * unit + (roundsFactors ? rowOf(DType::F32, true).unit : 0)};
}

double logitTolerance(DType dtype, bool roundsFactors, ModelSize size) {
  const Row &row = rowOf(dtype, roundsFactors);
  return size == ModelSize::Small ? row.small : row.gpt2;
}

double largestDifference(ArrayRef<float> row, ArrayRef<float> other) {
  double largest = row.size() == other.size() ? 0 : INFINITY;
  for (const auto &[a, b] : llvm::zip(row, other)) {
    double difference = std::abs(static_cast<double>(a) - b);
    largest = difference <= largest ? largest : std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

double largestSize(ArrayRef<float> row) {
  double largest = 0;
  for (float value : row)
    largest = std::max<double>(largest, std::abs(value));
  return largest;
}

} // namespace kiln
