// %mean = row_mean %x; %rstd = row_rstd %x, %mean {eps = 1e-05}; or, if kReadsRows is false, of groups of columns:
// %mean = row_mean %means; %rstd = merged_rstd %squares, %means, %mean {eps = 1e-05, size = 8}; by one block for all
// %norm = normalize_product %mm, %mean, %rstd, %w_sums; %add = add %norm, %b_fc; in float
struct Epilogue {
  const Element *x;
  const float *means, *squares, *w_sums, *b_fc;
  float *out;
  StampedValue *mail;
  template <int V> struct Operands {
    static constexpr bool kOfColumns = true;
    Packed<float, V> w_sums;
    Packed<float, V> b_fc;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {
    return {loadPacked<V>(w_sums + col), loadPacked<V>(b_fc + col)};
  }
  static constexpr int kRowLanes = Config::kReadsRows ? 32 : 8;
  struct RowOperands {
    float mean, rstd;
  };
  using Row = RowOfWarp<Element, Config::kDepth, 2>;
  KILN_DEVICE const Element *rowAt(int row) const { return x + i64(row) * Config::kDepth; }
  template <class AnyRow> KILN_DEVICE RowOperands operandsOf(const AnyRow &x_of_row) const {
    const float mean = x_of_row.mean();
    const float rstd = x_of_row.rstd(mean, 1e-05f);
    return {mean, rstd};
  }
  template <int kLanes> KILN_DEVICE RowOperands rowOperands(int row) const {
    if constexpr (Config::kReadsRows) {
      return operandsOf(Row(rowAt(row)));
    } else {
      constexpr int kGroups = Config::kDepth / kGroupColumns;
      const LaneGroups<kGroups, kLanes> squares_of_row(squares + i64(row) * kGroups),
          means_of_row(means + i64(row) * kGroups);
      const float mean = meanOfGroups(means_of_row);
      const float rstd = rstdOfGroups(squares_of_row, means_of_row, mean, 1e-05f);
      return {mean, rstd};
    }
  }
  template <int V>
  KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, const RowOperands &of, int row,
                              int col) const {
    const auto norm = (mm - of.mean * with.w_sums.unpack()) * of.rstd;
    const auto add = norm + with.b_fc.unpack();
    store(out + i64(row) * Config::kCols + col, add);
  }
};
