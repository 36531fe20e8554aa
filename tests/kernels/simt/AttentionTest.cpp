// attention/simt_flash.cuh, attention/simt_split_kv.cuh and attention/cluster_split_kv.cuh against softmax attention in
// double, and the latter two against themselves in other company.

#include "kernels/AttentionTest.h"
#include "kernels/simt/Cases.h"

namespace kiln {
namespace {

/// The bytes of shared memory that the template's header states, if they exceed the limit for static memory; else 0.
int flashDynamicBytes(const Variant &kernel) {
  const int headSize = kernel["kHeadSize"], queries = kernel["kTileQueries"], keys = kernel["kTileKeys"];
  const int bytes = 4 * ((queries + keys) * (headSize + 4) + keys * headSize + queries * (keys + 4));
  return bytes > 48 * 1024 ? bytes : 0;
}

using Flash = AttentionTest;
TEST_P(Flash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  run(kernel, {ceilDivide(queries, kernel["kTileQueries"]), static_cast<uint32_t>(heads), static_cast<uint32_t>(batch)},
      kernel["kThreads"], flashDynamicBytes(kernel), {out}, qkv, keyCache, valueCache, position, out, heads, queries,
      keys, capacity);
  expectClose(out, expectation(kernel["kCausal"], kernel["kWindow"]), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Flash, testing::ValuesIn(withRandomShapes(flashCases(), reshaped)));

using NaiveFlash = AttentionTest;
TEST_P(NaiveFlash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  const int tile = kernel["kTile"];
  run(kernel, {ceilDivide(queries, tile), static_cast<uint32_t>(heads), static_cast<uint32_t>(batch)}, tile * tile, 0,
      {out}, qkv, keyCache, valueCache, position, out, heads, queries, keys, capacity);
  expectClose(out, expectation(kernel["kCausal"], kernel["kWindow"]), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, NaiveFlash, testing::ValuesIn(withRandomShapes(naiveFlashCases(), reshaped)));

class Split : public AttentionTest {
protected:
  const int window = kernel["kWindow"];

  void SetUp() override {
    for (int b = 0; b < batch; ++b) {
      poisonCache(b, positions[b] + queries);
      poisonCache(b, 0, firstVisible(b, 0, window));
    }
  }

  static TestArray rowsOf(const TestArray &all, int batch, int first, int count) {
    const size_t row = all.size / static_cast<size_t>(batch), bytes = row * dtypeSize(all.type);
    return {static_cast<char *>(all.data) + static_cast<size_t>(first) * bytes, all.type,
            row * static_cast<size_t>(count)};
  }

  /// Runs a kernel on some rows of the batch. All schedules follow each other without resetting the counters.
  void attend(const Variant &by, int first, int count, TestArray result) {
    auto rows = [&](const TestArray &all) { return rowsOf(all, batch, first, count); };
    attend(by, rows(qkv), rows(keyCache), rows(valueCache), rows(position), result);
  }

  /// Runs a kernel on these operands, `at` having an element for each sequence.
  void attend(const Variant &by, const TestArray &q, const TestArray &k, const TestArray &v, const TestArray &at,
              TestArray result) {
    const int count = static_cast<int>(at.size);
    const Dim3 grid = {static_cast<uint32_t>(by["kSplits"]), static_cast<uint32_t>(heads),
                       static_cast<uint32_t>(count * by["kQueries"])};
    const int threads = 32 * by["kWarps"];
    if (by.name() == "cluster_split_kv_attention") {
      cluster = grid.x;
      run(by, grid, threads, 0, {result}, q, k, v, at, result, heads, capacity);
      return;
    }
    cluster = 1;
    TestArray parts = output(DType::F32, static_cast<size_t>(grid.z) * heads * 32 * (headSize + 4));
    TestArray arrivals = zeros(DType::I32, static_cast<size_t>(grid.z) * heads);
    run(by, grid, threads, 0, {result}, q, k, v, at, parts, arrivals, result, heads, capacity);
    EXPECT_EQ(arrivals.values(), std::vector<double>(arrivals.size, 0));
  }
};

TEST_P(Split, IsSoftmaxAttentionAndReplays) {
  attend(kernel, 0, batch, out);
  expectClose(out, expectation(/*isCausal=*/true, window), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Split,
                         testing::ValuesIn(withRandomShapes(splitCases("split_kv_attention"), reshaped)));
INSTANTIATE_TEST_SUITE_P(InClusters, Split,
                         testing::ValuesIn(withRandomShapes(splitCases("cluster_split_kv_attention"), reshaped)));

/// The case's kernel with other settings, and the one of the other template.
static std::vector<Variant> otherSplits(const Variant &kernel, int queries) {
  std::vector<Variant> all;
  for (StringRef name : {"split_kv_attention", "cluster_split_kv_attention"})
    for (const auto &[splits, warps, stages] : {std::tuple(1, 8, 2), {8, 1, 1}, {2, 4, 3}, {4, 8, 1}, {3, 3, 2}})
      all.push_back(Variant("simt", name, kernel.element(),
                            {{"kHeadSize", std::to_string(kernel["kHeadSize"])},
                             {"kWindow", std::to_string(kernel["kWindow"])},
                             {"kQueries", std::to_string(queries)},
                             {"kSplits", std::to_string(splits)},
                             {"kWarps", std::to_string(warps)},
                             {"kStages", std::to_string(stages)}}));
  return all;
}

// The bits of a row are the same with any rows beside it, and however its parts are spread over blocks and warps.
using SplitCompany = Split;
TEST_P(SplitCompany, DoesNotMatter) {
  attend(kernel, 0, batch, out);
  for (const Variant &other : otherSplits(kernel, queries)) {
    TestArray all = output(type, out.size), last = output(type, out.size / static_cast<size_t>(batch));
    attend(other, 0, batch, all);
    EXPECT_EQ(all.bytes(), out.bytes()) << other.name() << " " << other.label();
    attend(other, batch - 1, 1, last);
    EXPECT_EQ(last.bytes(), rowsOf(out, batch, batch - 1, 1).bytes()) << other.name() << " " << other.label();
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, SplitCompany, testing::ValuesIn([] {
                           std::vector<AttentionCase> cases = splitCases("split_kv_attention");
                           return std::vector{cases[0], cases[3], cases[4], cases[6], cases[12]};
                         }()));

// A query of several has the bits that it has alone.
using SplitQueries = Split;
TEST_P(SplitQueries, HaveTheBitsOfOne) {
  attend(kernel, 0, batch, out);
  const size_t element = dtypeSize(type);
  for (int t = 0; t < queries; ++t) {
    TestArray q = output(type, batch * 3 * row), alone = output(type, batch * row);
    std::vector<int> places;
    for (int b = 0; b < batch; ++b) {
      std::memcpy(static_cast<char *>(q.data) + b * 3 * row * element,
                  static_cast<char *>(qkv.data) + (b * queries + t) * 3 * row * element, 3 * row * element);
      places.push_back(positions[b] + t);
    }
    for (Variant &single : otherSplits(kernel, /*queries=*/1)) {
      attend(single, q, keyCache, valueCache, integers(places), alone);
      for (int b = 0; b < batch; ++b)
        EXPECT_EQ(rowsOf(alone, batch, b, 1).bytes(), rowsOf(out, batch * queries, b * queries + t, 1).bytes())
            << single.name() << " " << single.label() << ", row " << b << " query " << t;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, SplitQueries, testing::ValuesIn([] {
                           std::vector<AttentionCase> cases = splitCases("split_kv_attention");
                           return std::vector<AttentionCase>(cases.end() - 4, cases.end());
                         }()));
INSTANTIATE_TEST_SUITE_P(InClusters, SplitQueries, testing::ValuesIn([] {
                           std::vector<AttentionCase> cases = splitCases("cluster_split_kv_attention");
                           return std::vector<AttentionCase>(cases.end() - 4, cases.end() - 2);
                         }()));

} // namespace
} // namespace kiln
