// One small kernel per primitive; TensorCorePrimitives.cpp says what each must compute.
#include "device/device.cuh"

namespace kiln {

//===----------------------------------------------------------------------===//
// async_copy.cuh
//===----------------------------------------------------------------------===//

struct CopyTargets {
  alignas(16) u32 first[64][4], second[64][4];
};

// Thread i copies the first `i % 17` of 16 bytes as one group, then another 16 bytes as a second group. `out` has parts
// of 64 · 4 words: the first target before any wait (which no real kernel may read), both targets after the first
// group, the second target at the end. Data that has been waited for is read from the other end of the block.
extern "C" __global__ void async_copies(const u32 *in, u32 *out) {
  CopyTargets &shared = sharedStorage<CopyTargets>();
  const u32 i = threadIndex(), other = 63 - i;
  auto keep = [&](u32 part, const u32(&words)[4]) {
    for (u32 w = 0; w < 4; ++w)
      out[part * 256 + i * 4 + w] = words[w];
  };
  for (u32 w = 0; w < 4; ++w)
    shared.first[i][w] = shared.second[i][w] = 1;
  copyAsync(SharedAddress(shared.first[i]), in + 4 * i, i % 17);
  commitAsyncCopies();
  copyAsync(SharedAddress(shared.second[i]), in + 256 + 4 * i);
  commitAsyncCopies();
  keep(0, shared.first[i]);
  waitAsyncCopies<1>();
  syncThreads();
  keep(1, shared.first[other]);
  keep(2, shared.second[i]);
  commitAsyncCopies(); // an empty group
  waitAsyncCopies<1>();
  syncThreads();
  keep(3, shared.second[other]);
}

//===----------------------------------------------------------------------===//
// tensor_core.cuh
//===----------------------------------------------------------------------===//

// Four matrices of 8 rows of 8 elements of 16 bits. Each is one chunk of rows of 128 bytes with swizzled chunks.
extern "C" __global__ void matrix_loads(const u16 *in, u32 *plain, u32 *transposed) {
  struct Tile {
    alignas(128) u16 elements[8 * 64];
  };
  Tile &tile = sharedStorage<Tile>();
  const u32 lane = laneIndex(), row = lane % 8, matrix = lane / 8;
  const u32 offset = swizzledOffset(row, matrix, row);
  for (u32 i = 0; i < 8; ++i)
    tile.elements[offset / 2 + i] = in[lane * 8 + i];
  syncWarp();
  // The offset gives the address of chunk 0; flipping bits gives the others.
  const SharedAddress address = (SharedAddress(tile.elements) + swizzledOffset(row, 0, row)) ^ (matrix * kChunkBytes);
  u32 words[4];
  loadMatrices(words, address);
  for (u32 i = 0; i < 4; ++i)
    plain[4 * lane + i] = words[i];
  loadMatricesTransposed(words, address);
  for (u32 i = 0; i < 4; ++i)
    transposed[4 * lane + i] = words[i];
}

// Four floats of each lane, rounded to what products use of them.
extern "C" __global__ void rounded_factors(const u32 *in, u32 *out) {
  u32 words[4];
  for (u32 i = 0; i < 4; ++i)
    words[i] = in[4 * laneIndex() + i];
  roundFactors<float>(words);
  for (u32 i = 0; i < 4; ++i)
    out[4 * laneIndex() + i] = words[i] & 0xffffe000;
}

// sums[16][8] += a[16][8 words] · (b[8][8 words])^T by one warp, which reads the operands from memory word by word.
template <class T> KILN_DEVICE void multiplyOnce(const u32 *a, const u32 *b, float *sums) {
  const u32 group = laneIndex() / 4, place = laneIndex() % 4;
  MmaA left;
  MmaB right;
  for (u32 i = 0; i < 4; ++i)
    left.words[i] = a[(group + i % 2 * 8) * 8 + place + i / 2 * 4];
  for (u32 i = 0; i < 2; ++i)
    right.words[i] = b[group * 8 + place + i * 4];
  auto at = [&](u32 i) -> float & { return sums[(group + i / 2 * 8) * 8 + 2 * place + i % 2]; };
  MmaSums result = {{at(0), at(1), at(2), at(3)}};
  multiplyAdd<T>(result, left, right);
  for (u32 i = 0; i < 4; ++i)
    at(i) = result.values[i];
}
extern "C" __global__ void multiply_bf16(const u32 *a, const u32 *b, float *sums) { multiplyOnce<bf16>(a, b, sums); }
extern "C" __global__ void multiply_f16(const u32 *a, const u32 *b, float *sums) { multiplyOnce<f16>(a, b, sums); }
extern "C" __global__ void multiply_tf32(const u32 *a, const u32 *b, float *sums) { multiplyOnce<float>(a, b, sums); }

//===----------------------------------------------------------------------===//
// warpgroup.cuh
//===----------------------------------------------------------------------===//

// The place of element (depth, col) of a right operand of 16 by 80. If rows are columns, they begin at chunk 2; if rows
// are steps of the depth, they begin at row 8. The last 16 columns are in a slab of their own at chunk 4.
template <RightRows kRows> KILN_DEVICE u32 placeOfRight(u32 depth, u32 col) {
  const bool isColumn = kRows == RightRows::Columns;
  const u32 row = isColumn ? col : col / 64 * 24 + 8 + depth;
  const u32 byte = isColumn ? 2 * kChunkBytes + 2 * depth : col % 64 * 2 + col / 64 * 4 * kChunkBytes;
  return swizzledOffset(row, byte / kChunkBytes, row) + byte % kChunkBytes;
}

// sums[64][80] += a[64][16] · b[16][80] by each of two warpgroups, and plain[64][80] = a · b. `early` is the content of
// the first sums before they are received.
template <class T, RightRows kRows>
KILN_DEVICE void multiplyByWarpgroup(const u32 *a, const u16 *b, float *sums, float *plain, float *early) {
  struct Tile {
    alignas(kWarpgroupTileAlignment) u8 bytes[80 * kSwizzledRowBytes];
  };
  Tile &tile = dynamicShared<Tile>();
  for (u32 i = threadIndex(); i < 16 * 80; i += blockThreads())
    *reinterpret_cast<u16 *>(tile.bytes + placeOfRight<kRows>(i / 80, i % 80)) = b[i];
  fenceAsyncCopies();
  syncThreads();

  const u32 row = warpIndex() % 4 * 16 + laneIndex() / 4, place = laneIndex() % 4;
  MmaA left;
  for (u32 i = 0; i < 4; ++i)
    left.words[i] = a[(row + i % 2 * 8) * 8 + place + i / 2 * 4];
  const SharedAddress right(tile.bytes);
  const u32 first = kRows == RightRows::Columns ? 2 * kChunkBytes : 8 * kSwizzledRowBytes;
  const u32 second =
      kRows == RightRows::Columns ? 64 * kSwizzledRowBytes + 2 * kChunkBytes : 32 * kSwizzledRowBytes + 4 * kChunkBytes;
  WarpgroupSums<10> added, product;
  auto element = [&](float *matrix, u32 n, u32 i) -> float & {
    return matrix[warpgroupIndex() * 64 * 80 + (row + i / 2 * 8) * 80 + n * 8 + place * 2 + i % 2];
  };
  for (u32 n = 0; n < 10; ++n)
    for (u32 i = 0; i < 4; ++i)
      added.tiles[n].values[i] = element(sums, n, i);

  fenceProducts(left, added, product);
  startProduct<T, kRows, 8>(added, 0, left, right, first, true);
  startProduct<T, kRows, 2>(added, 8, left, right, second, true);
  commitProducts();
  startProduct<T, kRows, 8>(product, 0, left, right, first, false);
  startProduct<T, kRows, 2>(product, 8, left, right, second, false);
  commitProducts();
  early[threadIndex()] = added.tiles[9].values[3];
  waitProducts<1>();
  receive(added);
  waitProducts<0>();
  receive(product);
  for (u32 n = 0; n < 10; ++n)
    for (u32 i = 0; i < 4; ++i) {
      element(sums, n, i) = added.tiles[n].values[i];
      element(plain, n, i) = product.tiles[n].values[i];
    }
}

extern "C" __global__ void warpgroup_columns(const u32 *a, const u16 *b, float *sums, float *plain, float *early) {
  multiplyByWarpgroup<bf16, RightRows::Columns>(a, b, sums, plain, early);
}
extern "C" __global__ void warpgroup_depth(const u32 *a, const u16 *b, float *sums, float *plain, float *early) {
  multiplyByWarpgroup<f16, RightRows::Depth>(a, b, sums, plain, early);
}

} // namespace kiln
