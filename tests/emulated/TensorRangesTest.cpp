// Which tensor of a launch an access lies in.
#include "runtime/device/emulated/memory/TensorRanges.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

class TensorRangesTest : public testing::Test {
protected:
  TensorRange range(size_t first, size_t bytes, const char *name, bool isWritten = false) const {
    return {memory + first, bytes, name, isWritten};
  }
  /// The name of the range that an access lies in.
  std::string found(ArrayRef<TensorRange> ranges, size_t at, size_t bytes) const {
    const TensorRange *range = TensorRanges(ranges).find(memory + at, bytes);
    return range ? range->name : "none";
  }

  char memory[64] = {};
};

TEST_F(TensorRangesTest, AnAccessLiesInOneRangeWhole) {
  const TensorRange ranges[] = {range(32, 16, "b"), range(0, 16, "a"), range(48, 8, "c"), range(16, 0, "nothing")};
  EXPECT_EQ(found(ranges, 0, 4), "a");
  EXPECT_EQ(found(ranges, 12, 4), "a");
  EXPECT_EQ(found(ranges, 14, 4), "none"); // its end is outside
  EXPECT_EQ(found(ranges, 16, 4), "none");
  EXPECT_EQ(found(ranges, 32, 16), "b");
  EXPECT_EQ(found(ranges, 44, 8), "none"); // in two that touch
  EXPECT_EQ(found(ranges, 52, 4), "c");
  EXPECT_EQ(found(ranges, 56, 1), "none");
  EXPECT_EQ(found({}, 0, 1), "none");
}

TEST_F(TensorRangesTest, OfRangesThatOverlapTheFirstOneCounts) {
  const TensorRange ranges[] = {range(8, 8, "inner", true), range(0, 32, "outer")};
  EXPECT_EQ(found(ranges, 8, 4), "inner");
  EXPECT_EQ(found(ranges, 4, 8), "outer");
  const TensorRange same[] = {range(0, 16, "first"), range(0, 16, "second"), range(16, 16, "other")};
  EXPECT_EQ(found(same, 4, 4), "first");
  EXPECT_EQ(found(same, 16, 4), "other");
  const TensorRange both[] = {range(0, 16, "read"), range(0, 16, "written", true)};
  EXPECT_EQ(found(both, 4, 4), "read");
}

} // namespace
} // namespace kiln
