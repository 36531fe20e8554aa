// row_statistics: mean and reciprocal deviation of each row
//   %mean = row_mean %x
//   %rstd = row_rstd %x, %mean {eps = 1e-05}
#include "norm/statistics_of_rows.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 768, kThreads = 128, kRowThreads = 32, kVec = 4;
};
struct Input {
  const Element *x;
  static constexpr float kEps = 1e-05f;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {
    return kiln::load<V>(x + i64(row) * Config::kCols + col);
  }
};
struct Epilogue {
  float *mean, *rstd;
  KILN_DEVICE void operator()(RowStatistics s, int row) const {
    mean[row] = s.mean;
    rstd[row] = s.rstd;
  }
};
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    row_statistics(const Element *x, float *mean, float *rstd, int rows) {
  statisticsOfRows<Config>(rows, Input{x}, Epilogue{mean, rstd});
}
