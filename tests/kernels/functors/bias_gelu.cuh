struct Epilogue {
  const Element *b_fc;
  Element *out;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, int row, int col) const {
    const auto add = mm + load<V>(b_fc + col);
    const auto act = gelu_tanh(add);
    store(out + i64(row) * Config::kCols + col, act);
  }
};
