// cluster_split_kv_attention: a few queries a sequence over the cache, a cluster a head
//   %qk  = matmul %q, %k {transpose_b = true}
//   %s   = scale %qk {factor = 0.125}
//   %m   = causal_mask %s, %position
//   %p   = softmax %m
//   %out = matmul %p, %v
#include "attention/cluster_split_kv.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kHeadSize = 64, kSplits = 2, kWarps = 4, kStages = 2, kWindow = 0, kQueries = 1;
};
#include "functors/attention.cuh"
extern "C" __global__ void __launch_bounds__(Config::kWarps * 32)
    cluster_split_kv_attention(const Element *qkv, const Element *k_cache, const Element *v_cache, const int *position,
                               Element *out, int heads, int capacity) {
  const Operands in(qkv, k_cache, v_cache, heads, Config::kQueries, capacity);
  clusterSplitKv<Config>(in.query, in.key, in.value, Position{position}, Score{},
                         Epilogue<Element>{out, heads, Config::kQueries});
}
