struct Epilogue {
  const float *b_proj;
  const Element *skip;
  float *out;
  template <int V> struct Operands {
    Packed<float, V> b_proj;
    Packed<Element, V> skip;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {
    return {loadPacked<V>(b_proj + col), loadPacked<V>(skip + i64(row) * Config::kCols + col)};
  }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_proj.unpack();
    const auto res = add + with.skip.unpack();
    store(out + i64(row) * Config::kCols + col, res);
  }
};
