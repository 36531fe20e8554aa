struct Epilogue {
  Element *scores;
  int tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> qk, int row, int col) const {
    Vec<float, V> score;
    for (int v = 0; v < V; ++v)
      score[v] = col + v <= row ? qk[v] * 0.125f : -infinity();
    store(scores + i64(row) * tokens + col, score);
  }
};
