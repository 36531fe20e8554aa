// rows_norm_mail: a product of few rows, whose blocks compute statistics of the rows for each other
//   %mm   = matmul %x, %w_fc {out = f32, transpose_b = true}
//   …     functors/norm_mail_ahead.cuh
#include "gemv/wgmma_rows.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr bool kMails = true, kReadsRows = true;
  static constexpr int kRows = 8, kTileN = 64, kParts = 2, kGroups = 1, kStages = 1, kRowStages = 1, kShared = 0,
                       kChains = 1, kTurns = 1;
};
#include "functors/norm_mail_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaRowsShape<Config, Element>::kThreads)
    rows_norm_mail(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_fc, const Element *x,
                   const float *means, const float *squares, const float *w_sums, const float *b_fc, float *out,
                   StampedValue *mail, int rows) {
  wgmmaRows<Config, Element>(rows, x_map, w_fc, Epilogue{x, means, squares, w_sums, b_fc, out, mail});
}
