// The left operand of QK^T.
struct Input {
  const Element *q;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(q + i64(row) * Config::kDepth + k);
  }
};
