// Products of which each of several ranks has a part; RankTest.cpp compares their sums with those of the parts alone.
#include "device/device.cuh"
#include "gemv/mma_warps.cuh"
#include "gemv/wgmma_rows.cuh"

namespace kiln {

constexpr int kRanks = 3;
using Inboxes = PerRank<BlockInbox<kRanks> *, kRanks>;
static_assert(sizeof(BlockInbox<kRanks>) == 148512, "RankFixture.h has inboxes of this size");

struct WarpsConfig {
  static constexpr int kCols = 40, kDepth = 136, kRows = 8, kTilesN = 2, kWarpsN = 1, kDepthWarps = 2, kRanges = 2,
                       kChains = 1, kUnroll = 1, kBuffers = 1, kTurns = 1;
};
/// More threads than an inbox has room for.
struct WideWarpsConfig {
  static constexpr int kCols = 40, kDepth = 136, kRows = 8, kTilesN = 1, kWarpsN = 4, kDepthWarps = 2, kRanges = 2,
                       kChains = 1, kUnroll = 1, kBuffers = 1, kTurns = 1;
};
struct RowsConfig {
  static constexpr int kCols = 96, kDepth = 256, kRows = 16, kTileN = 64, kParts = 2, kGroups = 2, kStages = 1,
                       kRowStages = 1, kShared = 0, kChains = 1, kTurns = 1;
};

template <class Config> struct Epilogue {
  float *out;
  template <int V> struct Operands {};
  template <int V> KILN_DEVICE Operands<V> operands(int, int) const { return {}; }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &, int row, int col) const {
    store(out + i64(row) * Config::kCols + col, mm);
  }
};

extern "C" __global__ void warps_part(const bf16 *x, const bf16 *w, float *out, int rows) {
  mmaWarps<WarpsConfig>(rows, x, w, Epilogue<WarpsConfig>{out});
}
extern "C" __global__ void warps_sum(const bf16 *x, const bf16 *w, float *out, int rows, Inboxes inboxes,
                                     const u32 *stop, int rank) {
  mmaWarps<WarpsConfig>(rows, x, w, Epilogue<WarpsConfig>{out}, Exchange<kRanks>{inboxes, rank, stop});
}

extern "C" __global__ void wide_warps_part(const bf16 *x, const bf16 *w, float *out, int rows) {
  mmaWarps<WideWarpsConfig>(rows, x, w, Epilogue<WideWarpsConfig>{out});
}
extern "C" __global__ void wide_warps_sum(const bf16 *x, const bf16 *w, float *out, int rows, Inboxes inboxes,
                                          const u32 *stop, int rank) {
  mmaWarps<WideWarpsConfig>(rows, x, w, Epilogue<WideWarpsConfig>{out}, Exchange<kRanks>{inboxes, rank, stop});
}

extern "C" __global__ void rows_part(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
                                     float *out, int rows) {
  wgmmaRows<RowsConfig, bf16>(rows, x, w, Epilogue<RowsConfig>{out});
}
extern "C" __global__ void rows_sum(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
                                    float *out, int rows, Inboxes inboxes, const u32 *stop, int rank) {
  wgmmaRows<RowsConfig, bf16>(rows, x, w, Epilogue<RowsConfig>{out}, Exchange<kRanks>{inboxes, rank, stop});
}

} // namespace kiln
