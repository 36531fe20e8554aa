// Kernels with barriers in shared memory; CopyPrimitives.cpp says what each must compute.
#include "device/bulk_copy.cuh"
#include "device/device.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"

namespace kiln {

//===----------------------------------------------------------------------===//
// barrier.cuh
//===----------------------------------------------------------------------===//

// Each round reads what the other end of the block has written in the previous round, as reverse_rounds of threads.cu.
extern "C" __global__ void barrier_rounds(u32 *out, u32 rounds) {
  struct Shared {
    u32 slots[128];
    SharedBarrier full, empty;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 7) {
    initBarrier(shared.full, 128);
    initBarrier(shared.empty, 128);
    fenceBarriers();
  }
  syncThreads();
  u32 value = blockIndexX() * 128 + threadIndex();
  for (u32 i = 0; i < rounds; ++i) {
    waitBarrier(shared.empty, i % 2 ^ 1);
    shared.slots[threadIndex()] = value;
    arrive(shared.full);
    waitBarrier(shared.full, i % 2);
    value = shared.slots[127 - threadIndex()] + 1;
    arrive(shared.empty);
  }
  out[blockIndexX() * 128 + threadIndex()] = value;
}

// Thread 0 hands a word to all other warps, of which each first lane gives it back; `rounds` times.
extern "C" __global__ void handed_to_several_warps(u32 *out, u32 rounds) {
  struct Shared {
    u32 word;
    SharedBarrier full, empty;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    initBarrier(shared.empty, 3);
    fenceBarriers();
  }
  syncThreads();
  for (u32 i = 0; i < rounds; ++i)
    if (warpIndex() > 0) {
      waitBarrier(shared.full, i % 2);
      out[i * 96 + threadIndex() - 32] = shared.word;
      syncWarp();
      if (laneIndex() == 0)
        arrive(shared.empty);
    } else if (laneIndex() == 0) {
      waitBarrier(shared.empty, i % 2 ^ 1);
      shared.word = 10 * i;
      arrive(shared.full);
    }
}

// Two teams of a warp take turns with three slots, which the first warp fills: a team skips phases of which it knows by
// its turn.
extern "C" __global__ void skipped_phases(u32 *out) {
  struct Shared {
    u32 slots[3];
    SharedBarrier full[3], empty[3], turn[2];
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    for (u32 i = 0; i < 3; ++i) {
      initBarrier(shared.full[i], 1);
      initBarrier(shared.empty[i], 1);
    }
    initBarrier(shared.turn[0], 1);
    initBarrier(shared.turn[1], 1);
    fenceBarriers();
  }
  syncThreads();
  constexpr u32 kTurns = 5, kItems = 4; // of a turn
  const u32 team = warpIndex() - 1;
  if (warpIndex() == 0 && laneIndex() == 0)
    for (u32 item = 0; item < 2 * kTurns * kItems; ++item) {
      waitBarrier(shared.empty[item % 3], item / 3 % 2 ^ 1);
      shared.slots[item % 3] = item * item;
      arrive(shared.full[item % 3]);
    }
  for (u32 turn = 0; warpIndex() > 0 && turn < kTurns; ++turn) {
    waitBarrier(shared.turn[team], team == 0 ? turn % 2 ^ 1 : turn % 2);
    for (u32 i = 0; i < kItems; ++i) {
      const u32 item = (2 * turn + team) * kItems + i;
      waitBarrier(shared.full[item % 3], item / 3 % 2);
      if (laneIndex() == 9)
        out[item] = shared.slots[item % 3];
      syncWarp();
      if (laneIndex() == 0)
        arrive(shared.empty[item % 3]);
    }
    if (laneIndex() == 0)
      arrive(shared.turn[team ^ 1]);
  }
}

//===----------------------------------------------------------------------===//
// tensor_copy.cuh
//===----------------------------------------------------------------------===//

// out = a box of `rows` rows of 128 bytes, in the tensor's order; `early` is its content before the wait.
template <int kRank> KILN_DEVICE void copyOneBox(const TensorMap &map, const int (&at)[kRank], u32 *out, u32 *early) {
  constexpr u32 kRows = 24, kWords = kRows * kSwizzledRowBytes / 4;
  struct Shared {
    alignas(kWarpgroupTileAlignment) u8 box[kRows * kSwizzledRowBytes];
    SharedBarrier full;
  };
  Shared &shared = sharedStorage<Shared>();
  const u32 *words = reinterpret_cast<const u32 *>(shared.box);
  if (threadIndex() == 0) {
    prefetchMap(map);
    initBarrier(shared.full, 1);
    fenceBarriers();
    arriveExpecting(shared.full, sizeof(shared.box));
    copyBox(SharedAddress(shared.box), map, at, shared.full);
    for (u32 i = 0; i < kWords; ++i)
      early[i] = words[i];
  }
  syncThreads();
  waitBarrier(shared.full, 0);
  for (u32 i = threadIndex(); i < kWords; i += blockThreads()) {
    const u32 row = i / 32, byte = i % 32 * 4;
    out[i] = words[swizzledOffset(row, byte / kChunkBytes, row) / 4 + i % 4];
  }
}

extern "C" __global__ void copy_matrix(const __grid_constant__ TensorMap map, i32 x, i32 y, u32 *out, u32 *early) {
  copyOneBox(map, {x, y}, out, early);
}
extern "C" __global__ void copy_tensor(const __grid_constant__ TensorMap map, u32 *out, u32 *early) {
  copyOneBox(map, {-8, 1, 2, 0, -1}, out, early);
}

//===----------------------------------------------------------------------===//
// bulk_copy.cuh
//===----------------------------------------------------------------------===//

// out = so many words, a multiple of 4; `early` is what was in their place before the wait.
extern "C" __global__ void copy_bytes(const u32 *words, u32 count, u32 *out, u32 *early) {
  struct Shared {
    alignas(16) u32 words[256];
    SharedBarrier full;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    fenceBarriers();
    fenceGlobalCopies();
    arriveExpecting(shared.full, 4 * count);
    copyBytes(SharedAddress(shared.words), words, 4 * count, shared.full);
    for (u32 i = 0; i < count; ++i)
      early[i] = shared.words[i];
  }
  syncThreads();
  waitBarrier(shared.full, 0);
  for (u32 i = threadIndex(); i < count; i += blockThreads())
    out[i] = shared.words[i];
}

//===----------------------------------------------------------------------===//
// shared_product.cuh
//===----------------------------------------------------------------------===//

constexpr u32 kRingStages = 3, kRingRows = 128;

template <int kTiles> struct RingStorage {
  alignas(kWarpgroupTileAlignment) u8 a[kRingStages][kRingRows * kSwizzledRowBytes];
  alignas(kWarpgroupTileAlignment) u8 b[kRingStages][kTiles * 8 * kSwizzledRowBytes];
  SharedBarrier full[kRingStages], empty[kRingStages];
};

// out[256][8 kTiles] = a[256][64 steps] · b[8 kTiles][64 steps]^T: one thread fills stages, two warpgroups multiply two
// times 64 rows each by what has arrived. `early` is the content of the sums before they are received.
template <class T, int kTiles>
KILN_DEVICE void multiplyInARing(const TensorMap &a, const TensorMap &b, u32 steps, float *out, float *early) {
  auto &shared = dynamicShared<RingStorage<kTiles>>();
  if (threadIndex() == 0) {
    for (u32 i = 0; i < kRingStages; ++i) {
      initBarrier(shared.full[i], 1);
      initBarrier(shared.empty[i], 8);
    }
    fenceBarriers();
  }
  syncThreads();
  if (warpgroupIndex() == 0) {
    giveRegisters<40>();
    for (u32 i = 0; threadIndex() == 0 && i < steps; ++i) {
      const u32 stage = i % kRingStages;
      waitBarrier(shared.empty[stage], i / kRingStages % 2 ^ 1);
      arriveExpecting(shared.full[stage], sizeof(shared.a[0]) + sizeof(shared.b[0]));
      copyBox(SharedAddress(shared.a[stage]), a, {i32(i * 64), 0}, shared.full[stage]);
      copyBox(SharedAddress(shared.b[stage]), b, {i32(i * 64), 0}, shared.full[stage]);
    }
    return;
  }
  takeRegisters<232>();
  const u32 first = (warpgroupIndex() - 1) * 64;
  WarpgroupSums<kTiles> sums[2];
  for (u32 i = 0; i < steps; ++i) {
    const u32 stage = i % kRingStages;
    waitBarrier(shared.full[stage], i / kRingStages % 2);
    fenceProducts(sums[0], sums[1]);
    for (u32 part = 0; part < 4; ++part)
      for (u32 m = 0; m < 2; ++m) // the same rows twice, the second time without the first step
        startSharedProduct<T>(sums[m], SharedAddress(shared.a[stage]) + first * kSwizzledRowBytes,
                              SharedAddress(shared.b[stage]), part * 32, part > 0 || i > m);
    commitProducts();
    waitProducts<1>(sums);
    if (i > 0 && laneIndex() == 0)
      arrive(shared.empty[(i - 1) % kRingStages]);
  }
  early[threadIndex() - 128] = sums[1].tiles[kTiles - 1].values[3];
  waitProducts<0>(sums);
  for (u32 m = 0; m < 2; ++m) {
    receive(sums[m]);
    for (u32 n = 0; n < kTiles; ++n)
      for (u32 i = 0; i < 4; ++i) {
        const u32 row = m * 128 + first + warpIndex() % 4 * 16 + laneIndex() / 4 + i / 2 * 8;
        out[row * kTiles * 8 + n * 8 + laneIndex() % 4 * 2 + i % 2] = sums[m].tiles[n].values[i];
      }
  }
}

extern "C" __global__ void ring_bf16_32(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                        u32 steps, float *out, float *early) {
  multiplyInARing<bf16, 4>(a, b, steps, out, early);
}
extern "C" __global__ void ring_f16_160(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                        u32 steps, float *out, float *early) {
  multiplyInARing<f16, 20>(a, b, steps, out, early);
}

} // namespace kiln
