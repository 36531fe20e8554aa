// %mean = row_mean %means; %rstd = merged_rstd %squares, %means, %mean {eps = 1e-05, size = 8}
// %norm = normalize_product %mm, %mean, %rstd, %w_sums; %add = add %norm, %b_fc; in float
// %add_means = group_mean %add {size = 8}; %add_squares = group_squares %add, %add_means; of rounded elements
struct Epilogue {
  const float *means, *squares, *w_sums, *b_fc;
  float *out, *out_means, *out_squares;
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
  template <int kLanes> KILN_DEVICE RowOperands rowOperands(int row) const {
    constexpr int kGroups = Config::kDepth / kGroupColumns;
    const LaneGroups<kGroups, kLanes> squares_of_row(squares + i64(row) * kGroups),
        means_of_row(means + i64(row) * kGroups);
    const float mean = meanOfGroups(means_of_row);
    const float rstd = rstdOfGroups(squares_of_row, means_of_row, mean, 1e-05f);
    return {mean, rstd};
  }
  template <int V>
  KILN_DEVICE Vec<float, V> operator()(Vec<float, V> mm, const Operands<V> &with, const RowOperands &of, int row,
                                       int col) const {
    const auto norm = (mm - of.mean * with.w_sums.unpack()) * of.rstd;
    const auto add = norm + with.b_fc.unpack();
    store(out + i64(row) * Config::kCols + col, add);
    return add;
  }
  using Grouped = Element;
  KILN_DEVICE void group(GroupStatistics s, int row, int index) const {
    out_means[i64(row) * (Config::kCols / kGroupColumns) + index] = s.mean;
    out_squares[i64(row) * (Config::kCols / kGroupColumns) + index] = s.squares;
  }
};
