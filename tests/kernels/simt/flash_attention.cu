// flash_attention: queries from the packed projection, keys and values from the cache
//   %qk  = matmul %q, %k {transpose_b = true}
//   %s   = scale %qk {factor = 0.125}
//   %m   = causal_mask %s, %position
//   %p   = softmax %m
//   %out = matmul %p, %v
#include "attention/simt_flash.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kHeadSize = 64, kTileQueries = 64, kTileKeys = 64, kThreads = 256, kWindow = 0;
  static constexpr bool kCausal = true;
};
#include "functors/attention.cuh"
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    flash_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                    Element *out, int heads, int tokens, int keys, int capacity) {
  const Operands in(qkv, k_cache, v_cache, heads, tokens, capacity);
  simtFlash<Config>(tokens, keys, in.query, in.key, in.value, Position{position}, Score{},
                    Epilogue<Element>{out, heads, tokens});
}
