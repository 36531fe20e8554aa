struct Epilogue {
  const float *b_fc;
  Element *out;
  template <int V> struct Operands {
    static constexpr bool kOfColumns = true;
    Packed<float, V> b_fc;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const { return {loadPacked<V>(b_fc + col)}; }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_fc.unpack();
    const auto act = gelu_tanh(add);
    store(out + i64(row) * Config::kCols + col, act);
  }
};
