// One small kernel per primitive; Primitives.cpp says what each must compute.
#include "device/device.cuh"

namespace kiln {

struct Coordinates {
  u32 thread, threads, blockX, blockY, blockZ, blocksX, blocksY, blocksZ, lane, warp;
};

extern "C" __global__ void coordinates(Coordinates *out) {
  const u32 block = (blockIndexZ() * gridBlocksY() + blockIndexY()) * gridBlocksX() + blockIndexX();
  out[block * blockThreads() + threadIndex()] = {threadIndex(), blockThreads(), blockIndexX(), blockIndexY(),
                                                 blockIndexZ(), gridBlocksX(),  gridBlocksY(), gridBlocksZ(),
                                                 laneIndex(),   warpIndex()};
}

KILN_DEVICE u32 globalThread() { return blockIndexX() * blockThreads() + threadIndex(); }

//===----------------------------------------------------------------------===//
// numeric.cuh
//===----------------------------------------------------------------------===//

template <class T> KILN_DEVICE void roundTrip(const float *in, T *stored, float *back) {
  const u32 i = globalThread();
  stored[i] = fromFloat<T>(in[i]);
  back[i] = toFloat(stored[i]);
}
extern "C" __global__ void round_trip_bf16(const float *in, bf16 *stored, float *back) { roundTrip(in, stored, back); }
extern "C" __global__ void round_trip_f16(const float *in, f16 *stored, float *back) { roundTrip(in, stored, back); }

extern "C" __global__ void pairs(const float *in, u32 *bf16Words, u32 *f16Words, float *back) {
  bf16Words[0] = pairFromFloat<bf16>(in[0], in[1]);
  f16Words[0] = pairFromFloat<f16>(in[0], in[1]);
  back[0] = lowToFloat<bf16>(bf16Words[0]);
  back[1] = highToFloat<bf16>(bf16Words[0]);
  back[2] = lowToFloat<f16>(f16Words[0]);
  back[3] = highToFloat<f16>(f16Words[0]);
}

//===----------------------------------------------------------------------===//
// vec.cuh
//===----------------------------------------------------------------------===//

// A load of V elements by each way, and a store by each way, side by side for all widths.
template <class T> struct VectorStorage {
  alignas(16) T elements[8];
};
template <class T, int V> KILN_DEVICE void copyVectors(const T *in, T *out) {
  const Vec<float, V> plain = load<V>(in), readOnly = loadReadOnly<V>(in), streaming = loadStreaming<V>(in);
  T *shared = sharedStorage<VectorStorage<T>>().elements;
  storeShared(shared, plain);
  store(out, load<V>(shared));
  const T *nowhere = nullptr; // never read
  const auto some = loadPackedStreamingIf<V>(true, in), none = loadPackedStreamingIf<V>(false, nowhere);
  storeStreaming(out + 8, readOnly + streaming + none.unpack() - (some.unpack() - plain));
}
template <class T> KILN_DEVICE void copyAllWidths(const T *in, T *out) {
  copyVectors<T, 1>(in, out);
  copyVectors<T, 2>(in, out + 16);
  copyVectors<T, 4>(in, out + 32);
  copyVectors<T, 8>(in, out + 48);
}
extern "C" __global__ void copy_float(const float *in, float *out) { copyAllWidths(in, out); }
extern "C" __global__ void copy_bf16(const bf16 *in, bf16 *out) { copyAllWidths(in, out); }
extern "C" __global__ void copy_f16(const f16 *in, f16 *out) { copyAllWidths(in, out); }

extern "C" __global__ void arithmetic(const float *in, float *out) {
  const Vec<float, 4> a = load<4>(in), b = load<4>(in + 4);
  Vec<float, 4> sum = a, product = a;
  sum += b;
  product *= b;
  const Vec<float, 4> results[] = {a + b,
                                   a - b,
                                   a * b,
                                   a / b,
                                   a + 2.0f,
                                   a - 2.0f,
                                   a * 2.0f,
                                   a / 2.0f,
                                   2.0f + a,
                                   2.0f - a,
                                   2.0f * a,
                                   2.0f / a,
                                   sum,
                                   product,
                                   a.map([](float x) { return x * x; }),
                                   a.zip(b, [](float x, float y) { return x - 2.0f * y; })};
  for (int i = 0; i < 16; ++i)
    store(out + 4 * i, results[i]);
  out[64] = a.sum();
  out[65] = a.max();
}

//===----------------------------------------------------------------------===//
// math.cuh
//===----------------------------------------------------------------------===//

constexpr int kFunctions = 13;

// All functions of each input: as scalars in the first half of the output, as a Vec in the second.
extern "C" __global__ void functions(const float *in, float *out) {
  const u32 i = globalThread(), threads = gridBlocksX() * blockThreads();
  const float x = in[i];
  const float scalars[kFunctions] = {exp(x),      exp2(x),         log(x),        rsqrt(x),      tanh(x),
                                     erf(x),      fma(x, x, 0.5f), fmin(x, 0.5f), fmax(x, 0.5f), gelu_tanh(x),
                                     gelu_erf(x), relu(x),         reciprocal(x)};
  using V = Vec<float, 2>;
  const V v = V::fill(x), half = V::fill(0.5f);
  const V vectors[kFunctions] = {exp(v),      exp2(v),         log(v),        rsqrt(v),      tanh(v),
                                 erf(v),      fma(v, v, half), fmin(v, half), fmax(v, half), gelu_tanh(v),
                                 gelu_erf(v), relu(v),         reciprocal(v)};
  for (int f = 0; f < kFunctions; ++f) {
    out[f * threads + i] = scalars[f];
    out[(kFunctions + f) * threads + i] = vectors[f][1];
  }
}

extern "C" __global__ void infinities(float *out) {
  out[0] = infinity();
  out[1] = -infinity();
}

//===----------------------------------------------------------------------===//
// warp.cuh
//===----------------------------------------------------------------------===//

extern "C" __global__ void shuffles(const float *in, float *out) {
  const u32 lane = laneIndex();
  const float value = in[threadIndex()];
  out[threadIndex()] = shuffle(value, 5);
  out[64 + threadIndex()] = shuffle(value, lane + 33); // modulo the warp size
  out[128 + threadIndex()] = shuffleXor(value, 3);
  out[192 + threadIndex()] = shuffleDown(value, 4);
}

extern "C" __global__ void half_warps(const i32 *in, i32 *out) {
  const u32 half = laneIndex() / 16;
  const u32 lanes = half ? 0xffff0000u : 0x0000ffffu;
  // The halves diverge, and take part in different numbers of collectives.
  i32 value = in[laneIndex()];
  for (u32 i = 0; i < 1 + 3 * half; ++i)
    value = shuffleXor(value, 1, lanes);
  out[laneIndex()] = value;
  out[32 + laneIndex()] = warpSum<16>(in[laneIndex()], lanes);
}

extern "C" __global__ void votes(const u32 *in, u32 *out) {
  out[4 * threadIndex()] = ballot(in[threadIndex()] > 10);
  out[4 * threadIndex() + 1] = any(in[threadIndex()] == 7);
  out[4 * threadIndex() + 2] = all(in[threadIndex()] > 0);
  out[4 * threadIndex() + 3] = all(in[threadIndex()] > 10);
}

extern "C" __global__ void warp_scan(const u32 *in, u64 *sums, u32 *bits) {
  sums[laneIndex()] = warpInclusiveSum(u64(in[laneIndex()]) << 32);
  bits[laneIndex()] = bitCount(in[laneIndex()]);
  bits[32 + laneIndex()] = firstBit(in[laneIndex()]);
}

extern "C" __global__ void warp_reductions(const float *in, float *out, i32 *ints) {
  const u32 lane = laneIndex();
  out[lane] = warpSum(in[lane]);
  out[32 + lane] = warpSum<8>(in[lane]);
  out[64 + lane] = warpMax(in[lane]);
  out[96 + lane] = warpMax<4>(in[lane]);
  ints[lane] = warpSum(static_cast<i32>(lane) - 20);
  ints[32 + lane] = warpMax(static_cast<i32>(lane) - 40);
}

extern "C" __global__ void warp_exchange(u32 *out) {
  u32(&slots)[64] = sharedStorage<u32[64]>();
  slots[threadIndex()] = threadIndex() * 10;
  syncWarp();
  out[threadIndex()] = slots[threadIndex() ^ 1];
}

//===----------------------------------------------------------------------===//
// block.cuh and shared.cuh
//===----------------------------------------------------------------------===//

// Each round reads what the other end of the block wrote in the round before.
extern "C" __global__ void reverse_rounds(u32 *out, u32 rounds) {
  u32(&slots)[1024] = sharedStorage<u32[1024]>();
  u32 value = globalThread();
  for (u32 i = 0; i < rounds; ++i) {
    slots[threadIndex()] = value;
    syncThreads();
    value = slots[blockThreads() - 1 - threadIndex()] + 1;
    syncThreads();
  }
  out[globalThread()] = value;
}

extern "C" __global__ void block_reductions(const float *in, float *out, i32 *ints) {
  BlockScratch<float> &scratch = sharedStorage<BlockScratch<float>>();
  const u32 i = threadIndex();
  out[i] = blockSum(in[i], scratch);
  out[blockThreads() + i] = blockMax(in[i], scratch);
  ints[i] = blockSum(static_cast<i32>(i), sharedStorage<BlockScratch<i32>>());
  ints[blockThreads() + i] = blockMax(-static_cast<i32>(i), sharedStorage<BlockScratch<i32>>());
}

// Two counts behind each other: a thread that is slow to read the first must not get the second.
extern "C" __global__ void block_counts(u32 *multiplesOf3, u32 *multiplesOf5) {
  const u32 i = threadIndex();
  multiplesOf3[i] = syncThreadsCount(i % 3 == 0);
  multiplesOf5[i] = syncThreadsCount(i % 5 == 0);
}

extern "C" __global__ void block_prefix_sums(const u64 *in, u64 *before, u64 *total) {
  BlockScratch<u64> &scratch = sharedStorage<BlockScratch<u64>>();
  const u32 i = threadIndex();
  const PrefixSum<u64> once = blockPrefixSum(in[i], scratch);
  const PrefixSum<u64> twice = blockPrefixSum(2 * in[i], scratch);
  before[i] = twice.before - once.before;
  total[i] = twice.total - once.total;
}

struct First {
  float value[5];
};
struct Second {
  alignas(256) float value[3];
};

// Shared memory is fresh for every block, the same object by every call, and different objects for different
// types.
extern "C" __global__ void shared_objects(float *fresh, u32 *facts) {
  First &first = sharedStorage<First>();
  Second &second = sharedStorage<Second>();
  float(&dynamic)[100] = dynamicShared<float[100]>();
  if (threadIndex() == 0) {
    fresh[3 * blockIndexX()] = first.value[4];
    fresh[3 * blockIndexX() + 1] = second.value[2];
    fresh[3 * blockIndexX() + 2] = dynamic[99];
    first.value[4] = 1.0f;
    second.value[2] = 2.0f;
    dynamic[99] = 3.0f;
  }
  syncThreads();
  u32 *mine = facts + 4 * globalThread();
  mine[0] = sharedStorage<First>().value[4] == 1.0f;
  mine[1] = sharedStorage<Second>().value[2] == 2.0f;
  mine[2] = (&dynamicShared<float>())[99] == 3.0f;
  mine[3] = reinterpret_cast<u64>(&second) % 256 == 0 && reinterpret_cast<u64>(&dynamic) % 128 == 0;
}

extern "C" __global__ void shared_addresses(u32 *out) {
  float(&values)[8] = sharedStorage<float[8]>();
  out[0] = SharedAddress(&values[0]) + 12 == SharedAddress(&values[3]);
  out[1] = SharedAddress(&values[0]) == SharedAddress(&values[1]);
}

//===----------------------------------------------------------------------===//
// atomic.cuh
//===----------------------------------------------------------------------===//

extern "C" __global__ void additions(u32 *count, float *sum, u64 *large, u32 *earlier) {
  u64 &shared = sharedStorage<u64>();
  if (threadIndex() == 0)
    shared = 0;
  syncThreads();
  earlier[globalThread()] = atomicAdd(count, 2u);
  atomicAdd(sum, 0.5f);
  atomicAdd(&shared, u64(1) << 32);
  syncThreads();
  if (threadIndex() == 0)
    atomicAdd(large, shared);
}

extern "C" __global__ void shared_additions(const u64 *in, u64 *out) {
  u64(&sums)[2] = sharedStorage<u64[2]>();
  if (threadIndex() < 2)
    sums[threadIndex()] = 0;
  syncThreads();
  addToShared(&sums[threadIndex() % 2], in[threadIndex()]);
  syncThreads();
  if (threadIndex() < 2)
    out[threadIndex()] = sums[threadIndex()];
}

extern "C" __global__ void words_for_the_host(u64 *words) {
  storeToHost(words + threadIndex(), u64(threadIndex()) << 32 | blockIndexX());
}

// Each block writes a partial sum; the last one to arrive adds them up.
extern "C" __global__ void last_block_sums(float *partial, u32 *arrived, float *total) {
  u32 &earlier = sharedStorage<u32>();
  if (threadIndex() == 0)
    partial[blockIndexX()] = static_cast<float>(blockIndexX());
  syncThreads();
  if (threadIndex() == 0)
    earlier = arrive(arrived);
  syncThreads();
  if (earlier + 1 < gridBlocksX() || threadIndex() > 0)
    return;
  *total = 0.0f;
  for (u32 i = 0; i < gridBlocksX(); ++i)
    *total += partial[i];
}

// The writer's value is seen by whoever sees the flag behind its fence.
extern "C" __global__ void fenced_message(u32 *message, u32 *flag, u32 *received) {
  if (threadIndex() == 40) {
    *message = 1234;
    threadFence();
    atomicAdd(flag, 1u);
  }
  if (threadIndex() == 3) {
    while (loadAcquire(flag) == 0)
      pause();
    *received = *message;
  }
}

// All blocks pass each other a token through global memory, several times.
extern "C" __global__ void grid_rounds(u32 *slots, u32 *arrived, u32 rounds) {
  const u32 blocks = gridBlocksX(), next = (blockIndexX() + 1) % blocks;
  for (u32 round = 0; round < rounds; ++round) {
    const u32 *from = slots + (round % 2) * blocks;
    u32 *to = slots + (1 - round % 2) * blocks;
    if (threadIndex() == 0) {
      to[blockIndexX()] = from[next] + 1;
      arrive(arrived);
      while (loadAcquire(arrived) < (round + 1) * blocks)
        pause();
    }
    syncThreads();
  }
}

//===----------------------------------------------------------------------===//
// async_copy.cuh
//===----------------------------------------------------------------------===//

struct CopyTargets {
  alignas(16) u32 first[64][4], second[64][4];
};

// Thread i copies the first `i % 17` of 16 bytes as one group, then other 16 as a second one. `out`, in parts
// of 64 · 4 words: the first target before any wait (which no real kernel may read), both after the first
// group, the second after all. What was waited for is read from the other end of the block.
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

// Four matrices of 8 rows of 8 elements of 16 bits, one a chunk of rows of 128 bytes whose chunks are
// swizzled.
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
  // Chunk 0 is reached by the offset, the others by flipping bits.
  const SharedAddress address = (SharedAddress(tile.elements) + swizzledOffset(row, 0, row)) ^ (matrix * kChunkBytes);
  u32 words[4];
  loadMatrices(words, address);
  for (u32 i = 0; i < 4; ++i)
    plain[4 * lane + i] = words[i];
  loadMatricesTransposed(words, address);
  for (u32 i = 0; i < 4; ++i)
    transposed[4 * lane + i] = words[i];
}

// sums[16][8] += a[16][8 words] · (b[8][8 words])^T by one warp, the operands picked from memory word by
// word.
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

// Where element (depth, col) of a right operand of 16 by 80 lies: rows of columns begin at chunk 2; steps of the depth
// at row 8, and the last 16 columns in a slab of their own at chunk 4.
template <RightRows kRows> KILN_DEVICE u32 placeOfRight(u32 depth, u32 col) {
  const bool isColumn = kRows == RightRows::Columns;
  const u32 row = isColumn ? col : col / 64 * 24 + 8 + depth;
  const u32 byte = isColumn ? 2 * kChunkBytes + 2 * depth : col % 64 * 2 + col / 64 * 4 * kChunkBytes;
  return swizzledOffset(row, byte / kChunkBytes, row) + byte % kChunkBytes;
}

// sums[64][80] += a[64][16] · b[16][80] by each of two warpgroups, and plain[64][80] = a · b; early is what can be read
// of the first sums before they are received.
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
  startProduct<T, kRows, 8>(added, 0, left, right + first, true);
  startProduct<T, kRows, 2>(added, 8, left, right + second, true);
  commitProducts();
  startProduct<T, kRows, 8>(product, 0, left, right + first, false);
  startProduct<T, kRows, 2>(product, 8, left, right + second, false);
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
