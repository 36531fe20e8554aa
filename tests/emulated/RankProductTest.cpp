// Products of which each rank has a part: a thread of each exchanges its sums with its like on the others.

#include "emulated/RankFixture.h"

#include "runtime/device/emulated/TensorMaps.h"

#include "device/tensor_copy.cuh"

#include <random>

namespace kiln {
namespace {

/// A kernel of rank_products.cu, and its extents.
struct RankProduct {
  StringRef name;
  uint32_t blocks, threads;
  uint32_t cluster;
  int cols, depth;
  uint32_t shared;
};
// As kMmaWarpsShared and kWgmmaRowsShared have it.
const RankProduct products[] = {{"warps", 3, 128, 1, 40, 136, 7936},
                                {"wide_warps", 2, 320, 1, 40, 136, 19200},
                                {"rows", 4, 384, 2, 96, 256, 53248}};

class RankProductTest : public RankFixture {
protected:
  /// Random elements of bf16.
  char *elements(int count) {
    auto own = buffer<uint16_t>(static_cast<size_t>(count));
    for (size_t i = 0; i < own.size; ++i)
      own[i] = static_cast<uint16_t>(bitsOf(distribution(generator)) >> 16);
    return reinterpret_cast<char *>(own.data);
  }
  static uint32_t bitsOf(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

  /// Operands as the kernel takes them: addresses, or maps of them.
  struct Operands {
    char *x, *w;
    TensorMap xMap, wMap;
  };
  Operands operandsOf(const RankProduct &product, int rows) {
    Operands own{elements(rows * product.depth), elements(product.cols * product.depth), {}, {}};
    if (product.cluster == 1)
      return own;
    const auto row = static_cast<uint64_t>(product.depth) * 2;
    const auto cols = static_cast<uint64_t>(product.cols);
    own.xMap = encodeForHost(
        {0, DType::BF16, {64, static_cast<uint64_t>(rows), row / 128}, {row, 128}, {64, rows > 8 ? 16U : 8U, 1}},
        reinterpret_cast<uint64_t>(own.x));
    own.wMap = encodeForHost(
        {1, DType::BF16, {row / 2, 2, 4, 4, cols / 32}, {row, 8 * row, 2 * row, 32 * row}, {64, 2, 4, 4, 2}},
        reinterpret_cast<uint64_t>(own.w));
    return own;
  }

  /// Launches NAME_part, or with `more` arguments NAME_sum.
  template <class... More>
  Error multiply(const RankProduct &product, const LaunchOptions &how, const Operands &operands, const float *out,
                 int rows, const More &...more) {
    EmulatedLauncher own(&memory);
    LaunchOptions options = how;
    options.cooperative = true;
    options.cluster = product.cluster;
    options.rankPatience = patience;
    const bool isMapped = product.cluster > 1;
    std::vector<void *> arguments = {
        isMapped ? static_cast<void *>(const_cast<TensorMap *>(&operands.xMap)) : const_cast<char **>(&operands.x),
        isMapped ? static_cast<void *>(const_cast<TensorMap *>(&operands.wMap)) : const_cast<char **>(&operands.w),
        &out, &rows, const_cast<More *>(&more)...};
    const std::string kernel = (product.name + (sizeof...(more) > 0 ? "_sum" : "_part")).str();
    return own.launch(kernelLibrary("rank_products", /*checkAccesses=*/true).kernel(kernel), {product.blocks},
                      {product.threads}, product.shared, arguments, options);
  }

  std::mt19937 generator{1};
  std::normal_distribution<float> distribution;
};

/// Launch after launch, so that words are used again, with more rows and fewer.
TEST_F(RankProductTest, AddUpThePartsOfAllRanks) {
  kernelLibrary("rank_products", /*checkAccesses=*/true); // before there are several threads
  forEachSchedule([&](const LaunchOptions &options) {
    for (const RankProduct &product : products) {
      const PerRank<char *> inboxes = inboxesOf(product.blocks);
      for (int rows : {8, 3, 8}) {
        const auto count = static_cast<size_t>(rows) * static_cast<size_t>(product.cols);
        std::vector<Operands> operands;
        std::vector<Buffer<float>> parts, sums;
        for (size_t rank = 0; rank < ranks; ++rank) {
          operands.push_back(operandsOf(product, rows));
          parts.push_back(buffer<float>(count));
          sums.push_back(buffer<float>(count));
          ASSERT_EQ(printed(multiply(product, options, operands[rank], parts[rank].data, rows)), "");
        }
        uint32_t *stopped = stop.data;
        std::vector<std::string> errors = onAllRanks([&](int rank) {
          auto own = static_cast<size_t>(rank);
          return multiply(product, options, operands[own], sums[own].data, rows, inboxes, stopped, rank);
        });
        ASSERT_EQ(errors, std::vector<std::string>(ranks)) << product.name.str();
        for (size_t rank = 0; rank < ranks; ++rank)
          for (size_t i = 0; i < count; ++i) // in the order of the ranks: the same bits on all of them
            ASSERT_EQ(sums[rank][i], parts[0][i] + parts[1][i] + parts[2][i]) << product.name.str() << ' ' << i;
      }
    }
  });
}

} // namespace
} // namespace kiln
