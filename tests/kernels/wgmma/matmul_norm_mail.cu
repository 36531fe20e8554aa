// matmul_norm_mail: a product whose blocks compute statistics of its rows for each other
//   %mm   = matmul %x, %w_fc {out = f32, transpose_b = true}
//   …     functors/norm_mail_ahead.cuh
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 96, kDepth = 96;
  static constexpr bool kMails = true, kReadsRows = true;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
};
#include "functors/norm_mail_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_norm_mail(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_fc, const Element *x,
                     const float *means, const float *squares, const float *w_sums, const float *b_fc, float *out,
                     StampedValue *mail, int rows) {
  wgmmaTiled<Config, Element>(rows, x_map, w_fc, Epilogue{x, means, squares, w_sums, b_fc, out, mail});
}
