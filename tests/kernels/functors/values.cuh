// The left operand of PV, and the epilogue of the product.
struct Input {
  const Element *p;
  int tokens;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(p + i64(row) * tokens + k);
  }
};
struct Epilogue {
  Element *out;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> pv, int row, int col) const {
    store(out + i64(row) * Config::kCols + col, pv);
  }
};
