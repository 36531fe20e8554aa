// naive_flash_attention: flash_attention at the lowest rung of the ladder, queries from the packed projection, keys and
// values from the cache
//   %qk  = matmul %q, %k {transpose_b = true}
//   %s   = scale %qk {factor = 0.125}
//   %m   = causal_mask %s, %position
//   %p   = softmax %m
//   %out = matmul %p, %v
#include "attention/naive_flash.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kHeadSize = 64, kTile = 16, kWindow = 0;
  static constexpr bool kCausal = true;
};
#include "functors/attention.cuh"
extern "C" __global__ void __launch_bounds__(Config::kTile *Config::kTile)
    naive_flash_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                          Element *out, int heads, int tokens, int keys, int capacity) {
  const Operands in(qkv, k_cache, v_cache, heads, tokens, capacity);
  naiveFlash<Config>(tokens, keys, in.query, in.key, in.value, Position{position}, Score{},
                     Epilogue<Element>{out, heads, tokens});
}
