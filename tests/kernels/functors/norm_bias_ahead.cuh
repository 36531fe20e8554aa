// %norm = normalize_product %mm, %mean, %rstd, %w_sums; %add = add %norm, %b_fc; in float
struct Epilogue {
  const float *mean, *rstd, *w_sums, *b_fc;
  float *out;
  template <int V> struct Operands {
    static constexpr bool kOfColumns = true;
    Packed<float, V> w_sums;
    Packed<float, V> b_fc;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {
    return {loadPacked<V>(w_sums + col), loadPacked<V>(b_fc + col)};
  }
  struct RowOperands {
    float mean, rstd;
  };
  template <int kLanes> KILN_DEVICE RowOperands rowOperands(int row) const { return {mean[row], rstd[row]}; }
  template <int V>
  KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, const RowOperands &of, int row,
                              int col) const {
    const auto norm = (mm - of.mean * with.w_sums.unpack()) * of.rstd;
    const auto add = norm + with.b_fc.unpack();
    store(out + i64(row) * Config::kCols + col, add);
  }
};
