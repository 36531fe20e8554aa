//===- emulated_products.cuh - products of a warpgroup on the CPU ---------------===//
//
// CPU only: what warpgroup.cuh and shared_product.cuh share. Sums keep a list of the products that have been started.
// The last lane of a warp that waits for them, or receives the sums, reads the operands and computes the warp's rows.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"

namespace kiln {

/// A started product, as a lane stores it.
struct EmulatedWarpgroupProduct {
  MmaA a;
  const char *left;  ///< the left operand in shared memory; null if it is in `a`
  u32 leftRows = 64; ///< its rows in memory; the others are NaN
  const char *right;
  u32 rightCols = 256; ///< its columns in memory; the others are NaN
  int first, count;    ///< tiles of the sums
  bool rowsAreDepth, adds;
  void (*decode)(const void *chunk, float (&values)[8]);
  u32 group;        ///< the number of its group among the thread's
  const void *code; ///< the place of the start

  bool hasSameOperands(const EmulatedWarpgroupProduct &other) const {
    return left == other.left && right == other.right && first == other.first && adds == other.adds;
  }

  /// A chunk of an operand at `from`: rows are permuted by bits of the address.
  KILN_EMULATED_UNCHECKED static const char *chunkAt(const char *from, u32 row, u32 chunk) {
    const u64 linear = reinterpret_cast<u64>(from) + row * kSwizzledRowBytes + chunk * kChunkBytes;
    return reinterpret_cast<const char *>(linear ^ linear / kSwizzledRowBytes % kRowChunks * kChunkBytes);
  }
  /// Rows of the right operand, and the chunks of each that are read. Those of the left operand have two.
  u32 rightRows() const { return rowsAreDepth ? 16 : min(u32(8 * count), rightCols); }
  u32 rightChunks() const { return rowsAreDepth ? u32(count) : 2; }

  /// A chunk that the products of a warp read.
  KILN_EMULATED_UNCHECKED const char *read(const char *from, u32 row, u32 chunk) const {
    const char *at = chunkAt(from, row, chunk);
#if defined(KILN_EMULATED_CHECKED)
    emulatedThread->checkOperand(at, kChunkBytes, code);
#endif
    return at;
  }
};

/// The products of sums between start and receive() that have not been computed.
struct EmulatedProducts {
  static constexpr u32 kMost = 64;
  EmulatedWarpgroupProduct products[kMost];
  u32 count = 0;
  u32 group = 0;       ///< of the last one
  bool isOpen = false; ///< whether the sums are not received yet

  /// The number of products of groups that the thread has waited for; these come first.
  u32 finished() const {
    u32 done = 0;
    while (done < count && products[done].group < emulatedThread->finishedProducts)
      ++done;
    return done;
  }
};

template <int kTiles> struct WarpgroupSums {
  MmaSums tiles[kTiles];
  MmaSums results[kTiles] = {}; ///< the sums to which the products are added
  EmulatedProducts started = {};
};

/// A lane's input to the start of a product: all lanes must name the same operands. The last lane to arrive reads them,
/// so that checked accesses find data that has not arrived.
struct EmulatedProductStart {
  const EmulatedWarpgroupProduct *product;

  static const char *combine(void *const *lanes) {
    const EmulatedWarpgroupProduct &one = *static_cast<EmulatedProductStart *>(lanes[0])->product;
    for (u32 i = 1; i < kWarpgroupSize; ++i) {
      const EmulatedWarpgroupProduct &other = *static_cast<EmulatedProductStart *>(lanes[i])->product;
      if (!one.hasSameOperands(other))
        return one.left != other.left ? "product of a warpgroup: expected one left operand, got several"
                                      : "product of a warpgroup: expected one right operand, got several";
    }
    for (u32 row = 0; row < one.rightRows(); ++row)
      for (u32 chunk = 0; chunk < one.rightChunks(); ++chunk)
        one.read(one.right, row, chunk);
    for (u32 row = 0; one.left && row < one.leftRows; ++row)
      for (u32 chunk = 0; chunk < 2; ++chunk)
        one.read(one.left, row, chunk);
    return nullptr;
  }
};

/// The floats of a chunk of eight elements.
template <class T>
KILN_EMULATED_UNCHECKED inline void emulatedDecodeChunk(const void *chunk, float (&values)[8]) {
  u16 elements[8];
  __builtin_memcpy(elements, chunk, sizeof(elements));
  for (u32 i = 0; i < 8; ++i)
    values[i] = lowToFloat<T>(elements[i]);
}

/// Starts a product whose operands, tiles and group `product` has.
template <int kTiles>
KILN_DEVICE void emulatedStart(WarpgroupSums<kTiles> &sums, EmulatedWarpgroupProduct product, Site site) {
  EmulatedProducts &started = sums.started;
  if (!emulatedThread->areProductsFenced)
    emulatedThread->fail("product of a warpgroup: expected fenceProducts() since the last wait", site);
  if (started.count == EmulatedProducts::kMost)
    emulatedThread->fail("product of a warpgroup: expected at most 64 before a wait that names their sums", site);
  if (!started.isOpen)
    __builtin_memcpy(sums.results, sums.tiles, sizeof(sums.tiles));
  started.isOpen = true;
  for (int i = product.first; i < product.first + product.count; ++i)
    for (float &value : sums.tiles[i].values)
      value = __builtin_nanf("");
  product.group = started.group = emulatedThread->committedProducts;
  started.products[started.count++] = product;
  EmulatedProductStart lane{&product};
  emulatedThread->syncWarpgroup(&lane, EmulatedProductStart::combine, site);
}

/// A lane's input to the computation of the first `count` products of sums. A warp's rows do not depend on other warps.
template <int kTiles> struct EmulatedReceive {
  WarpgroupSums<kTiles> *sums;
  u32 count;

  /// The columns of a tile: the host's compiler adds them at once.
  typedef float Columns __attribute__((vector_size(8 * sizeof(float))));
  /// The operands of a warp: its rows, and all columns.
  struct Operands {
    float a[16][16];
    Columns b[16][kTiles];
  };

  KILN_EMULATED_UNCHECKED static WarpgroupSums<kTiles> &of(void *const *lanes, u32 lane) {
    return *static_cast<EmulatedReceive *>(lanes[lane])->sums;
  }

  KILN_EMULATED_UNCHECKED static void readLeft(void *const *lanes, u32 i, Operands &operands) {
    const EmulatedWarpgroupProduct &one = of(lanes, 0).started.products[i];
    float values[8];
    if (one.left) {
      for (u32 row = 0; row < 16; ++row)
        for (u32 chunk = 0; chunk < 2; ++chunk) {
          const u32 leftRow = warpIndex() % 4 * 16 + row;
          if (leftRow < one.leftRows)
            one.decode(one.read(one.left, leftRow, chunk), values);
          else
            for (float &value : values)
              value = __builtin_nanf("");
          __builtin_memcpy(&operands.a[row][chunk * 8], values, sizeof(values));
        }
      return;
    }
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
      one.decode(&of(lanes, lane).started.products[i].a, values);
      for (u32 word = 0; word < 4; ++word)
        for (u32 half = 0; half < 2; ++half)
          operands.a[lane / 4 + word % 2 * 8][lane % 4 * 2 + word / 2 * 8 + half] = values[word * 2 + half];
    }
  }

  KILN_EMULATED_UNCHECKED static void readRight(const EmulatedWarpgroupProduct &one, Operands &operands) {
    float values[8];
    for (u32 col = one.rightCols; col < u32(8 * one.count); ++col)
      for (Columns(&step)[kTiles] : operands.b)
        step[col / 8][col % 8] = __builtin_nanf("");
    for (u32 row = 0; row < one.rightRows(); ++row)
      for (u32 chunk = 0; chunk < one.rightChunks(); ++chunk) {
        one.decode(one.read(one.right, row, chunk), values);
        if (one.rowsAreDepth)
          __builtin_memcpy(&operands.b[row][chunk], values, sizeof(values));
        else
          for (u32 j = 0; j < 8; ++j)
            operands.b[chunk * 8 + j][row / 8][row % 8] = values[j];
      }
  }

  /// Computes product i for every lane.
  KILN_EMULATED_UNCHECKED static void multiply(void *const *lanes, u32 i) {
    const EmulatedWarpgroupProduct &one = of(lanes, 0).started.products[i];
    Operands operands;
    readLeft(lanes, i, operands);
    readRight(one, operands);
    for (u32 row = 0; row < 16; ++row)
      for (int tile = 0; tile < one.count; ++tile) {
        Columns sums = operands.a[row][0] * operands.b[0][tile];
        for (u32 k = 1; k < 16; ++k)
          sums += operands.a[row][k] * operands.b[k][tile];
        for (u32 col = 0; col < 8; ++col) {
          float &sum = of(lanes, row % 8 * 4 + col / 2).results[one.first + tile].values[row / 8 * 2 + col % 2];
          sum = one.adds ? sum + sums[col] : sums[col];
        }
      }
  }

  static const char *combine(void *const *lanes) {
    for (u32 i = 0; i < static_cast<EmulatedReceive *>(lanes[0])->count; ++i)
      multiply(lanes, i);
    return nullptr;
  }
};

/// Computes the products of sums for which the thread has waited.
template <int kTiles> KILN_DEVICE void emulatedFinish(WarpgroupSums<kTiles> &sums, Site site) {
  EmulatedProducts &started = sums.started;
  const u32 done = started.finished();
  if (done == 0)
    return;
  EmulatedReceive<kTiles> lane{&sums, done};
  emulatedThread->syncWarp(kAllLanes, &lane, EmulatedReceive<kTiles>::combine, site);
  started.count -= done;
  __builtin_memmove(started.products, started.products + done, started.count * sizeof(EmulatedWarpgroupProduct));
}
template <int kTiles, int kCount> KILN_DEVICE void emulatedFinish(WarpgroupSums<kTiles> (&sums)[kCount], Site site) {
  for (WarpgroupSums<kTiles> &one : sums)
    emulatedFinish(one, site);
}

} // namespace kiln
