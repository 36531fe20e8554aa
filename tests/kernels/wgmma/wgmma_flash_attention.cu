// wgmma_flash_attention: queries from the packed projection, keys and values from the cache
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
                       kShared = 0, kWays = 1;
  static constexpr bool kCausal = true;
};
#include "functors/attention.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaFlashShape<Config>::kThreads, Config::kResident)
    wgmma_flash_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                          float *out, int heads, int tokens, int keys, int capacity) {
  const Operands in(qkv, k_cache, v_cache, heads, tokens, capacity);
  wgmmaFlash<Config>(tokens, keys, in.query, in.key, in.value, Position{position}, Score{},
                     Epilogue<float>{out, heads, tokens});
}
