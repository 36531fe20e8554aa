// wgmma_flash_attention: split heads of queries, keys and values from the cache
//   %qk  = qk %q, %k
//   %s   = scale %qk {factor = 0.125}
//   %m   = causal_mask %s, %position
//   %p   = softmax %m
//   %out = pv %p, %v
#include "attention/wgmma_flash.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kHeadSize = 64, kTileQueries = 128, kTileKeys = 64, kStages = 2, kWindow = 0, kResident = 2,
                       kShared = 0, kRoles = 1, kRanges = 1, kRangeKeys = 0, kWays = 1;
  static constexpr bool kCausal = true, kPastKeys = true;
};
#include "functors/attention.cuh"
// q_map: extents kHeadSize, tokens, sequences * heads; box 64, kTileQueries, 1. k_map and v_map: of the cache, up to
// its capacity; box 64, kTileKeys, 1.
extern "C" __global__ void __launch_bounds__(WgmmaFlashShape<Config>::kBlockThreads, Config::kResident)
    wgmma_flash_attention(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                          const __grid_constant__ TensorMap v_map, const int *position, float *out, int heads,
                          int tokens, int keys) {
  wgmmaFlash<Config, Element>(tokens, keys, q_map, k_map, v_map, Position{position}, Score{},
                              Epilogue<float>{out, heads, tokens});
}
