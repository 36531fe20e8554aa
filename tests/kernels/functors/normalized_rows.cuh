// Rows that are normalised when a product reads them; Parameter is the type of the layernorm's weights.
struct Input {
  const Element *x;
  const Parameter *ln_w, *ln_b;
  static constexpr bool kNormalizes = true;
  static constexpr float kEps = 1e-05f;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(x + i64(row) * Config::kDepth + k);
  }
  template <int V> struct Parameters {
    Vec<float, V> ln_w, ln_b;
  };
  template <int V> KILN_DEVICE Parameters<V> parameters(int k) const {
    return {kiln::load<V>(ln_w + k), kiln::load<V>(ln_b + k)};
  }
  template <int V>
  KILN_DEVICE Vec<float, V> normalize(Vec<float, V> x, RowStatistics s, const Parameters<V> &p) const {
    const auto ln = (x - s.mean) * s.rstd * p.ln_w + p.ln_b;
    return ln;
  }
};
