// naive_flash_attention: flash_attention on the lowest rung of the ladder, queries from the packed projection, keys and
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
struct Position {
  const int *position;
  KILN_DEVICE int operator()(int b) const { return position[b]; }
};
struct Score {
  KILN_DEVICE float operator()(float qk) const {
    const auto s = qk * 0.125f;
    return s;
  }
};
struct Epilogue {
  Element *out; // [B, T, NH * HS]
  int heads, tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> pv, int b, int h, int t, int d) const {
    store(out + ((i64(b) * tokens + t) * heads + h) * Config::kHeadSize + d, pv);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kTile *Config::kTile)
    naive_flash_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                          Element *out, int heads, int tokens, int keys, int capacity) {
  constexpr i64 kHead = Config::kHeadSize;
  const i64 row = 3 * heads * kHead, cached = capacity * kHead;
  const HeadView<Element> query{qkv, tokens * row, kHead, row};
  const HeadView<Element> key{k_cache, heads * cached, cached, kHead}, value{v_cache, heads * cached, cached, kHead};
  naiveFlash<Config>(tokens, keys, query, key, value, Position{position}, Score{}, Epilogue{out, heads, tokens});
}
