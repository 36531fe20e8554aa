// split_kv_attention: one query a row over the cache
//   %qk  = matmul %q, %k {transpose_b = true}
//   %s   = scale %qk {factor = 0.125}
//   %m   = causal_mask %s, %position
//   %p   = softmax %m
//   %out = matmul %p, %v
#include "attention/simt_split_kv.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kHeadSize = 64, kChunk = 16, kWarps = 4, kUnroll = 2, kWindow = 0;
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
  Element *out; // [B, 1, NH * HS]
  int heads;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> pv, int b, int h, int, int d) const {
    store(out + (i64(b) * heads + h) * Config::kHeadSize + d, pv);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kWarps * 32)
    split_kv_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                       SplitPart<Config::kHeadSize> *parts, u32 *arrivals, Element *out, int heads, int capacity) {
  constexpr i64 kHead = Config::kHeadSize;
  const i64 cached = capacity * kHead;
  const HeadView<Element> query{qkv, 3 * heads * kHead, kHead, 0};
  const HeadView<Element> key{k_cache, heads * cached, cached, kHead}, value{v_cache, heads * cached, cached, kHead};
  simtSplitKv<Config>(query, key, value, Position{position}, Score{}, parts, arrivals, Epilogue{out, heads});
}
