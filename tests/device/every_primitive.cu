// Uses every primitive, so that GPU compilers see each of them instantiated. tests/emulated/ tests their meaning.
#include "device/bulk_copy.cuh"
#include "device/clock.cuh"
#include "device/cluster_copy.cuh"
#include "device/computed_here.cuh"
#include "device/device.cuh"
#include "device/inbox.cuh"
#include "device/mailbox.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"

namespace kiln {

struct Config {
  static constexpr int kBlocks = ceilDiv(min(700, 768), max(128, 64));
};
static_assert(Config::kBlocks == 6);

struct Storage {
  float tile[32][33];
  BlockScratch<float> floats;
  BlockScratch<i32> ints;
  u64 large;
};

template <int V, class T> KILN_DEVICE void moveVectors(T *target, const T *source) {
  const Vec<float, V> once = loadStreaming<V>(source), kept = load<V>(source + 64);
  storeStreaming(target, (once + kept) * 2.0f - 1.0f / kept);
  storeStreaming(target + 32, loadPackedStreamingIf<V>(threadIndex() < 3, source).unpack());
  store(target + 64, load<V>(source + 128).map([](float x) { return x + 1.0f; }));
}

template <class T> KILN_DEVICE void moveEveryWidth(T *target, const T *source) {
  moveVectors<1>(target, source);
  moveVectors<2>(target, source);
  moveVectors<4>(target, source);
  moveVectors<8>(target, source);
}

KILN_DEVICE Vec<float, 4> everyFunction(Vec<float, 4> x) {
  x += exp(x) + exp2(x) + log(x) + rsqrt(x) + tanh(x) + erf(x) + fma(x, x, x) + fma(2.0f, x, x);
  x += approximateTanh(x);
  x *= fmin(x, x) + fmax(x, x) + gelu_tanh(x) + gelu_tanh_bf16(x) + gelu_erf(x) + relu(x) + reciprocal(x);
  return x + Vec<float, 4>::fill(x.sum() + x.max() + infinity());
}

template <class T> KILN_DEVICE void multiplyByWarp(float *sums, SharedAddress tile) {
  u32 left[4], right[4];
  loadMatrices(left, tile);
  loadMatricesTransposed(right, tile);
  roundFactors<T>(left);
  MmaSums product = {};
  multiplyAdd<T>(product, {{left[0], left[1], left[2], left[3]}}, {{right[0], right[1]}});
  sums[laneIndex()] = product.values[0];
}

template <class T> KILN_DEVICE void multiplyByWarpgroup(float *sums, SharedAddress right) {
  MmaA left = {};
  WarpgroupSums<10> product = {};
  fenceAsyncCopies();
  fenceProducts(left, product);
  startProduct<T, RightRows::Columns, 8>(product, 0, left, right, 32, true);
  startProduct<T, RightRows::Depth, 8>(product, 0, left, right, 32, true);
  startProduct<T, RightRows::Columns, 2>(product, 8, left, right, 32, false);
  startProduct<T, RightRows::Depth, 2>(product, 8, left, right, 32, true);
  commitProducts();
  waitProducts<0>();
  receive(product);
  WarpgroupSums<10> both = product;
  addSums(both, product);
  sums[warpgroupIndex()] = both.tiles[0].values[0] + both.tiles[9].values[3];
}

template <class T, int kTiles> KILN_DEVICE void multiplyShared(float *sums, SharedAddress tile) {
  WarpgroupSums<kTiles> product[2] = {};
  fenceProducts(product[0], product[1]);
  startSharedProduct<T>(product[0], tile, tile, 32, true);
  startSharedProduct<T>(product[1], tile, tile, 0, false);
  commitProducts();
  waitProducts<1>(product);
  waitProducts<0>(product[1]);
  receive(product[0]);
  receive(product[1]);
  sums[warpgroupIndex()] = product[0].tiles[0].values[0] + product[1].tiles[kTiles - 1].values[3];
}

struct CopyStorage {
  alignas(kWarpgroupTileAlignment) u8 tile[32 * kSwizzledRowBytes];
  SharedBarrier barrier;
};

KILN_DEVICE void copyBoxes(float *sums, const TensorMap &matrix, const TensorMap &slices, const TensorMap &tensor) {
  CopyStorage &storage = sharedStorage<CopyStorage>();
  giveRegisters<40>();
  if (threadIndex() == 0) {
    prefetchMap(matrix);
    initBarrier(storage.barrier, 2);
    fenceBarriers();
    arriveExpecting(storage.barrier, 5 * sizeof(storage.tile));
    copyBox(SharedAddress(storage.tile), matrix, {64, 0}, storage.barrier);
    copyBox(SharedAddress(storage.tile), slices, {64, 0, 1}, storage.barrier);
    copyBox(SharedAddress(storage.tile), tensor, {0, 1, 2, 3, 4}, storage.barrier);
    copyBoxOnce(SharedAddress(storage.tile), matrix, {64, 0}, storage.barrier);
    copyBoxOnce(SharedAddress(storage.tile), slices, {64, 0, 1}, storage.barrier);
    arrive(storage.barrier);
  }
  waitBarrier(storage.barrier, 0);
  u32 parity = 0;
  syncWarps<1, 128>(storage.barrier, parity);
  const u32 loaded[] = {storage.tile[0], storage.tile[1]};
  arriveBehindLoads(storage.barrier, loaded);
  takeRegisters<240>();
  multiplyShared<bf16, 4>(sums, SharedAddress(storage.tile));
  multiplyShared<f16, 8>(sums, SharedAddress(storage.tile));
  multiplyShared<bf16, 12>(sums, SharedAddress(storage.tile));
  multiplyShared<bf16, 16>(sums, SharedAddress(storage.tile));
  multiplyShared<bf16, 20>(sums, SharedAddress(storage.tile));
  multiplyShared<bf16, 24>(sums, SharedAddress(storage.tile));
  multiplyShared<bf16, 28>(sums, SharedAddress(storage.tile));
  multiplyShared<bf16, 32>(sums, SharedAddress(storage.tile));
}

extern "C" __global__ void __launch_bounds__(128)
    every_copy(const __grid_constant__ TensorMap matrix, const __grid_constant__ TensorMap slices,
               const __grid_constant__ TensorMap tensor, float *sums) {
  copyBoxes(sums, matrix, slices, tensor);
}

// Copies of contiguous bytes.
extern "C" __global__ void __launch_bounds__(128) every_copy_of_bytes(const u8 *bytes) {
  CopyStorage &storage = sharedStorage<CopyStorage>();
  if (threadIndex() == 0) {
    fenceGlobalCopies();
    copyBytes(SharedAddress(storage.tile), bytes, 64, storage.barrier);
  }
}

// Copies of 16 bytes.
extern "C" __global__ void __launch_bounds__(128) every_copy_of_chunks(const u8 *bytes, u32 count, float *sums) {
  CopyStorage &storage = sharedStorage<CopyStorage>();
  const u8 *const own = computedHere(bytes + threadIndex() * kChunkBytes);
  const SharedAddress to = computedHere(SharedAddress(storage.tile) + threadIndex() * kChunkBytes);
  const u32 inside = computedHere(min(count, kChunkBytes));
  prefetchLine(own + 4096);
  copyAsync(to, own);
  copyAsync(to + 128 * kChunkBytes, own, inside);
  commitAsyncCopies();
  waitAsyncCopies<0>();
  syncThreads();
  multiplyByWarp<float>(sums, SharedAddress(storage.tile));
  multiplyByWarp<bf16>(sums + 32, SharedAddress(storage.tile));
  multiplyByWarp<f16>(sums + 64, SharedAddress(storage.tile));
}

// What ranks exchange.
extern "C" __global__ void __launch_bounds__(128)
    every_exchange(StampedValue *stamped, u32 *words, u32 *arrivals, const u32 *stop, float *out) {
  postToRank(stamped, {1.0f, 2.0f}, 3);
  for (u32 tries = 0; !peekFromRanks(stamped).has(3); ++tries)
    retryForRanks(tries, stop);
  store(out, awaitPosts<2>(stamped, 2, 3, stop));
  postBitsToRank(words, Vec<float, 2>{3.0f, 4.0f});
  postBitsToRank(words + 4, Vec<float, 4>{5.0f, 6.0f, 7.0f, 8.0f});
  store(out + 4, takePostedBits<2, 1>(words, 4, stop));
  store(out + 8, takePostedBits<4, 2>(words + 4, 4, stop));
  arriveAtRank(arrivals, 1);
  countAtRank(arrivals + 1);
  awaitRank(arrivals, 1, stop);
}

// Copies to the blocks of a cluster.
extern "C" __global__ void __launch_bounds__(128)
    every_copy_to_blocks(const __grid_constant__ TensorMap matrix, const __grid_constant__ TensorMap tensor) {
  CopyStorage &storage = sharedStorage<CopyStorage>();
  if (threadIndex() == 0) {
    copyBoxToBlocks(SharedAddress(storage.tile), matrix, {64, 0}, storage.barrier, 3);
    copyBoxToBlocks(SharedAddress(storage.tile), tensor, {0, 1, 2, 3, 4}, storage.barrier, 3);
  }
}

struct alignas(16) FourWords {
  u32 words[4];
};

struct ClusterStorage {
  alignas(16) float floats[8];
  alignas(16) bf16 bf16s[8];
  FourWords words;
  SharedBarrier barrier;
};

// __cluster_dims__ is refused for older GPUs; a launch can also say it.
extern "C" __global__ void __launch_bounds__(128) every_primitive_of_clusters(float *sums) {
  ClusterStorage &storage = sharedStorage<ClusterStorage>();
  if (threadIndex() == 0) {
    initBarrier(storage.barrier, 4);
    fenceBarriers();
    arriveExpecting(storage.barrier, 32 + 16 + 16 + 8 + 4);
  }
  syncCluster();
  const u32 next = (clusterRank() + 1) % clusterBlocks();
  const ClusterPointer<float> floats = inBlock(storage.floats, next);
  const ClusterPointer<bf16> bf16s = inBlock(storage.bf16s, next);
  const ClusterPointer<SharedBarrier> barrier = inBlock(&storage.barrier, next);
  storeAsync(floats, Vec<float, 8>::fill(1.0f), barrier);
  storeAsync(bf16s, Vec<float, 8>::fill(2.0f), barrier);
  storeAsync(inBlock(&storage.words, next), FourWords{{1, 2, 3, 4}}, barrier);
  storeAsync(inBlock(reinterpret_cast<u64 *>(storage.floats), next), u64(5), barrier);
  storeAsync(floats, 6.0f, barrier);
  arrive(barrier);
  arriveBehindProducts(barrier);
  arriveExpecting(barrier, 0);
  waitClusterBarrier(storage.barrier, 0);
  acquireCluster();
  store(floats + 4, load<4>(floats));
  store(bf16s, load<8>(bf16s) + loadPacked<8>(bf16s).unpack());
  store(bf16s + 4, load<1>(bf16s));
  store(floats, load(floats + 1));
  arriveClusterAtStart();
  waitCluster();
  arriveCluster();
  sums[clusterRank()] = storage.floats[0];
  waitCluster();
}

alignas(16) __constant__ float parameters[8];

extern "C" __global__ void __launch_bounds__(128)
    every_primitive(float *floats, bf16 *bf16s, f16 *f16s, u32 *counter, const float *__restrict__ source) {
  allowDependents();
  waitForDependencies();
  Storage &storage = sharedStorage<Storage>();
  float *dynamic = &dynamicShared<float>();
  const u32 place = (blockIndexZ() * gridBlocksY() + blockIndexY()) * gridBlocksX() + blockIndexX() + gridBlocksZ();
  storage.tile[warpIndex()][laneIndex()] = source[place * blockThreads() + threadIndex()];
  dynamic[threadIndex()] = toFloat(bf16s[0]) + toFloat(f16s[0]) + toFloat(floats[0]);
  syncThreads();

  float value = storage.tile[laneIndex()][warpIndex()] + dynamic[0];
  value += shuffle(value, 3) + shuffleXor(value, 1) + shuffleDown(value, 2);
  value += warpSum(value) + warpMax<16>(value) + static_cast<float>(ballot(value > 0.0f));
  value += warpMaxByOrder(value) + static_cast<float>(renewed(place) + clockCycles());
  if (any(value > 1.0f) && all(value < 9.0f))
    syncWarp();
  value += blockSum(value, storage.floats) + blockMax(value, storage.floats);
  const PrefixSum<i32> sums = blockPrefixSum(static_cast<i32>(place), storage.ints);
  const i32 largest =
      blockMax(sums.before + sums.total, storage.ints) + static_cast<i32>(syncThreadsCount(value > 0.0f));
  addToShared(&storage.large, u64(place) << 20);

  SharedAddress address(&storage.tile[0][0]);
  if (address + 4 == SharedAddress(&storage.tile[0][1]))
    bf16s[1] = fromFloat<bf16>(value);
  f16s[1] = fromFloat<f16>(value);
  floats[1] = fromFloat<float>(value + static_cast<float>(largest));

  moveEveryWidth(floats, source);
  moveEveryWidth(bf16s, bf16s + 512);
  moveEveryWidth(f16s, f16s + 512);
  store(floats + 8, everyFunction(load<4>(source) + load<4>(parameters + 4)));
  storeShared(dynamic, load<4>(source));

  multiplyByWarpgroup<bf16>(floats, address);
  multiplyByWarpgroup<f16>(floats + 1, address);

  atomicAdd(floats, value);
  atomicAdd(counter, 2u);
  u64 *words = reinterpret_cast<u64 *>(counter);
  floats[3] = float(atomicAddAhead(words, 1));
  atomicAdd(words, philox(place, 1, 2).words[3] + warpInclusiveSum(u64(bitCount(place) + firstBit(place | 1) +
                                                                       leadingZeros(u64(place) << 20 | 1))));
  storeToHost(words + 1, 3);
  threadFence();
  arrive(counter);
  while (loadAcquire(counter) < 8)
    pause();
  auto *stamped = reinterpret_cast<StampedValue *>(words);
  post(stamped, {value, 1.0f}, place);
  for (u32 peeks = 0; seesOtherBlocks() && isPatient(peeks) && !peek(stamped).has(place); ++peeks)
    retry();
  floats[2] = peek(stamped).values().sum();
}

} // namespace kiln
