struct Epilogue {
  Element *scores;
  int tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> qk, int row, int col) const {
    const auto score = qk * 0.125f;
    store(scores + i64(row) * tokens + col, score);
  }
};
