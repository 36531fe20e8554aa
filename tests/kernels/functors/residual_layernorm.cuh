// With Config::kStreaming, data that is used once does not displace other data in the cache.
template <int V> KILN_DEVICE Vec<float, V> loadOnce(const Element *from) {
  if constexpr (Config::kStreaming)
    return loadStreaming<V>(from);
  else
    return load<V>(from);
}
template <int V> KILN_DEVICE void storeOnce(Element *to, Vec<float, V> values) {
  if constexpr (Config::kStreaming)
    storeStreaming(to, values);
  else
    store(to, values);
}
struct Input {
  const Element *x, *skip, *ln_w, *ln_b;
  Element *total;
  static constexpr float kEps = 1e-05f;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {
    const i64 at = i64(row) * Config::kCols + col;
    const auto sum = loadOnce<V>(x + at) + loadOnce<V>(skip + at);
    storeOnce(total + at, sum);
    return sum;
  }
  template <int V> KILN_DEVICE Vec<float, V> normalize(Vec<float, V> sum, RowStatistics s, int col) const {
    const auto ln = (sum - s.mean) * s.rstd * kiln::load<V>(ln_w + col) + kiln::load<V>(ln_b + col);
    return ln;
  }
};
struct Epilogue {
  Element *out;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> ln, int row, int col) const {
    storeOnce(out + i64(row) * Config::kCols + col, ln);
  }
};
