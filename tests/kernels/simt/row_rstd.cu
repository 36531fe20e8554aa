// row_rstd: the reciprocal deviation of each row around a mean that is known
//   %rstd = row_rstd %x, %mean {eps = 1e-05}
#include "device/numeric.cuh"
#include "norm/row_reduction.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 768, kThreads = 128;
};
struct Input {
  const Element *x;
  const float *mean;
  KILN_DEVICE float operator()(int row, int col) const {
    const float deviation = toFloat(x[i64(row) * Config::kCols + col]) - mean[row];
    return deviation * deviation;
  }
};
struct Epilogue {
  float *rstd;
  KILN_DEVICE void operator()(float sum, int row) const {
    rstd[row] = kiln::rsqrt(sum / float(Config::kCols) + 1e-05f);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    row_rstd(const Element *x, const float *mean, float *rstd) {
  rowReduction<Config>(Input{x, mean}, Epilogue{rstd});
}
