// Shared memory has 32 banks of 4 bytes. A matrix load reads 8 rows of 16 bytes at a time: if it has no conflict, it
// uses all banks.

#include "attention/mma_flash.cuh"
#include "gemm/mma_tiled.cuh"

#include <gtest/gtest.h>

#include <set>

namespace kiln {
namespace {

/// Expects that the addresses of every eight lanes, at any of the four parts of a row, are in eight different groups of
/// banks.
template <class Offset> void expectNoConflicts(Offset offset) {
  for (u32 part = 0; part < 4; ++part)
    for (u32 first = 0; first < kWarpSize; first += 8) {
      std::set<u32> banks;
      for (u32 lane = first; lane < first + 8; ++lane) {
        const u32 address = offset(lane) ^ part * 2 * kChunkBytes;
        EXPECT_EQ(address % kChunkBytes, 0u);
        banks.insert(address / kChunkBytes % 8);
      }
      EXPECT_EQ(banks.size(), 8u) << "part " << part << ", lanes from " << first;
    }
}

TEST(BankConflicts, MatrixProduct) {
  expectNoConflicts(matrixLoadOffsetA);
  expectNoConflicts(matrixLoadOffsetB);
}

TEST(BankConflicts, Attention) {
  expectNoConflicts(flashQueryOffset);
  expectNoConflicts(flashKeyOffset);
  expectNoConflicts(flashValueOffset);
}

} // namespace
} // namespace kiln
