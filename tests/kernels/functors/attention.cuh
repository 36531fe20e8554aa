struct Position {
  const int *position;
  KILN_DEVICE int operator()(int b) const { return position[b]; }
};
struct Score {
  static constexpr float kFactor = 0.125f;
  KILN_DEVICE float operator()(float qk) const {
    const auto s = qk * kFactor;
    return s;
  }
};
template <class Output> struct Epilogue {
  Output *out; // [B, T, NH * HS]
  int heads, tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> pv, int b, int h, int t, int d) const {
    store(out + ((i64(b) * tokens + t) * heads + h) * Config::kHeadSize + d, pv);
  }
};
// Queries from the packed projection, keys and values from the cache.
struct Operands {
  HeadView<Element> query, key, value;

  KILN_DEVICE Operands(const Element *qkv, const Element *k_cache, const Element *v_cache, int heads, int tokens,
                       int capacity) {
    constexpr i64 kHead = Config::kHeadSize;
    const i64 row = 3 * heads * kHead, cached = capacity * kHead;
    query = {qkv, tokens * row, kHead, row};
    key = {k_cache, heads * cached, cached, kHead};
    value = {v_cache, heads * cached, cached, kHead};
  }
};
