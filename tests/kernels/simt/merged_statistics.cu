// merged_statistics: statistics of rows from those of their groups, by four lanes a row and by eight
//   %mean = row_mean %means
//   %rstd = merged_rstd %squares, %means, %mean {eps = 1e-05, size = 8}
#include "norm/group_statistics.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kGroups = 96;
};
template <int kLanes>
KILN_DEVICE void mergeRows(const float *means, const float *squares, float *mean, float *rstd, int rows) {
  for (int row = int(laneIndex()) / kLanes; row < rows; row += 32 / kLanes) {
    const LaneGroups<Config::kGroups, kLanes> ofMeans(means + row * Config::kGroups),
        ofSquares(squares + row * Config::kGroups);
    const float own = meanOfGroups(ofMeans);
    const float deviation = rstdOfGroups(ofSquares, ofMeans, own, 1e-05f);
    if (int(laneIndex()) % kLanes == 0) {
      mean[row] = own;
      rstd[row] = deviation;
    }
  }
}
extern "C" __global__ void __launch_bounds__(32)
    merged_statistics(const float *means, const float *squares, float *mean4, float *rstd4, float *mean8, float *rstd8,
                      int rows) {
  mergeRows<4>(means, squares, mean4, rstd4, rows);
  mergeRows<8>(means, squares, mean8, rstd8, rows);
}
