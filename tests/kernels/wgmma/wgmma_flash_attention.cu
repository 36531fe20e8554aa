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
  static constexpr int kHeadSize = 64, kTileQueries = 128, kTileKeys = 64, kStages = 2, kWindow = 0, kResident = 2;
  static constexpr bool kCausal = true;
};
struct Position {
  const int *position;
  KILN_DEVICE int operator()(int b) const { return position[b]; }
};
struct Score {
  static constexpr float kFactor = 0.125f;
};
struct Epilogue {
  float *out; // [B, T, NH * HS]
  int heads, tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> pv, int b, int h, int t, int d) const {
    store(out + ((i64(b) * tokens + t) * heads + h) * Config::kHeadSize + d, pv);
  }
};
extern "C" __global__ void __launch_bounds__(WgmmaFlashShape<Config>::kThreads, Config::kResident)
    wgmma_flash_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                          float *out, int heads, int tokens, int keys, int capacity) {
  constexpr i64 kHead = Config::kHeadSize;
  const i64 row = 3 * heads * kHead, cached = capacity * kHead;
  const HeadView<Element> query{qkv, tokens * row, kHead, row};
  const HeadView<Element> key{k_cache, heads * cached, cached, kHead}, value{v_cache, heads * cached, cached, kHead};
  wgmmaFlash<Config>(tokens, keys, query, key, value, Position{position}, Score{}, Epilogue{out, heads, tokens});
}
