// Kernels whose blocks form clusters; ClusterPrimitives.cpp says what each must compute.
#include "device/cluster_copy.cuh"
#include "device/device.cuh"
#include "device/mailbox.cuh"

namespace kiln {

extern "C" __global__ void places(u32 *out) {
  u32 *own = out + (blockIndexY() * gridBlocksX() + blockIndexX()) * 2;
  own[0] = clusterRank();
  own[1] = clusterBlocks();
  syncCluster();
}

// Each block hands 64 elements to the next one in its cluster, by a load and by a store.
template <class T> KILN_DEVICE void rotate(float *out) {
  struct alignas(16) Shared {
    T own[64], received[64];
  };
  Shared &shared = sharedStorage<Shared>();
  const u32 thread = threadIndex(), next = (clusterRank() + 1) % clusterBlocks();
  if (thread < 16)
    storeShared(shared.own + 4 * thread, Vec<float, 4>{4.0f * thread, 4.0f * thread + 1, 2.0f, 100.0f * clusterRank()});
  syncCluster();
  if (thread < 8) {
    const ClusterPointer<T> from = inBlock(shared.own, next) + 8 * thread;
    store(inBlock(shared.received, next) + 8 * thread, load<8>(from) + loadPacked<8>(from).unpack());
  }
  syncCluster();
  for (u32 i = thread; i < 64; i += blockThreads())
    out[blockIndexX() * 64 + i] = toFloat(shared.received[i]);
}
extern "C" __global__ void rotate_floats(float *out) { rotate<float>(out); }
extern "C" __global__ void rotate_bf16s(float *out) { rotate<bf16>(out); }

// Objects of 4, 8 and 16 bytes, in variables that the blocks use in different orders, and in dynamic memory.
struct alignas(16) FourWords {
  u32 words[4];
};
extern "C" __global__ void objects(u64 *out) {
  if (clusterRank() == 1 && threadIndex() == 0)
    sharedStorage<u64>() = 1;
  u32 &word = sharedStorage<u32>();
  FourWords &words = dynamicShared<FourWords[2]>()[1];
  u64 &large = sharedStorage<u64>();
  syncCluster();
  if (threadIndex() == 0) {
    const u32 other = clusterBlocks() - 1 - clusterRank();
    store(inBlock(&word, other), clusterRank() + 10);
    store(inBlock(&large, other), u64(clusterRank()) << 40);
    store(inBlock(&words, other), FourWords{{1, 2, 3, clusterRank()}});
  }
  syncCluster();
  if (threadIndex() == 0)
    out[clusterRank()] = load(inBlock(&word, clusterRank())) + load(inBlock(&large, clusterRank())) +
                         load(inBlock(&words, clusterRank())).words[3] + words.words[2];
}

// Work between the halves of the cluster's barrier; a warp that has left is not waited for.
extern "C" __global__ void halves(u32 *out) {
  struct Shared {
    u32 before, between;
  };
  Shared &shared = sharedStorage<Shared>();
  if (warpIndex() == 1)
    return;
  for (u32 round = 0; round < 3; ++round) {
    if (threadIndex() == 0)
      shared.before = 10 * round + clusterRank();
    arriveCluster();
    if (threadIndex() == 0)
      shared.between = round;
    waitCluster();
    if (threadIndex() == 0)
      out[blockIndexX() * 3 + round] = load(inBlock(&shared.before, clusterRank() ^ 1)) * 10 + shared.between;
    syncCluster();
  }
}

// Each block fills a slot of the next one; full and empty are barriers at which blocks arrive.
extern "C" __global__ void ring_of_blocks(u32 *out, u32 rounds) {
  struct Shared {
    u32 slot[32];
    SharedBarrier full, empty;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 32);
    initBarrier(shared.empty, 32);
    fenceBarriers();
  }
  syncCluster();
  const u32 next = (clusterRank() + 1) % clusterBlocks(),
            last = (clusterRank() + clusterBlocks() - 1) % clusterBlocks();
  u32 value = blockIndexX() * 32 + threadIndex();
  for (u32 i = 0; i < rounds; ++i) {
    waitClusterBarrier(shared.empty, i % 2 ^ 1);
    store(inBlock(shared.slot + threadIndex(), next), value);
    arrive(inBlock(&shared.full, next));
    waitClusterBarrier(shared.full, i % 2);
    value = shared.slot[31 - threadIndex()] + 1;
    arrive(inBlock(&shared.empty, last));
  }
  out[blockIndexX() * 32 + threadIndex()] = value;
  syncCluster();
}

// Every block sends a part to every block, with the bytes' barrier; two buffers, so that a block may be a round ahead.
extern "C" __global__ void exchange(float *out, u32 rounds) {
  struct alignas(16) Shared {
    float parts[2][8][64];
    SharedBarrier full[2];
  };
  Shared &shared = sharedStorage<Shared>();
  const u32 bytes = clusterBlocks() * 64 * 4, warp = warpIndex(), lane = laneIndex();
  if (threadIndex() == 0) {
    for (SharedBarrier &full : shared.full)
      initBarrier(full, 1);
    fenceBarriers();
    for (SharedBarrier &full : shared.full)
      arriveExpecting(full, bytes);
  }
  syncCluster();
  float sums[2] = {float(clusterRank() + 1), 1};
  for (u32 i = 0; i < rounds; ++i) {
    const u32 stage = i % 2;
    if (warp < clusterBlocks())
      storeAsync(inBlock(shared.parts[stage][clusterRank()] + lane * 2, warp), Vec<float, 2>{sums[0], sums[1]},
                 inBlock(&shared.full[stage], warp));
    waitClusterBarrier(shared.full[stage], i / 2 % 2);
    // Armed again before the block sends what others answer.
    if (threadIndex() == 0 && i + 2 < rounds)
      arriveExpecting(shared.full[stage], bytes);
    sums[0] = sums[1] = 0;
    for (u32 from = 0; from < clusterBlocks(); ++from) {
      const auto part = load<2>(shared.parts[stage][from] + lane * 2);
      sums[0] += part[0];
      sums[1] += part[1];
    }
    syncThreads();
  }
  if (warp == 0)
    store(out + blockIndexX() * 64 + lane * 2, Vec<float, 2>{sums[0], sums[1]});
  syncCluster();
}

// Every width of bytes that arrive at a barrier. Nothing but the wait for them keeps the block alive.
extern "C" __global__ void widths(u32 *out) {
  struct alignas(16) Shared {
    float floats[8];
    bf16 bf16s[8];
    FourWords words;
    u64 large;
    u32 word;
    SharedBarrier full;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 2);
    fenceBarriers();
    arriveExpecting(shared.full, 32 + 16 + 16);
  }
  syncCluster();
  const u32 other = clusterRank() ^ 1;
  const ClusterPointer<SharedBarrier> full = inBlock(&shared.full, other);
  if (threadIndex() == 0) {
    storeAsync(inBlock(shared.floats, other), Vec<float, 8>::fill(1.5f), full);
    storeAsync(inBlock(shared.bf16s, other), Vec<float, 8>::fill(2.5f), full);
    storeAsync(inBlock(&shared.words, other), FourWords{{1, 2, 3, clusterRank()}}, full);
    arriveExpecting(full, 12);
    storeAsync(inBlock(&shared.large, other), u64(7) << 32, full);
    storeAsync(inBlock(&shared.word, other), 9u, full);
  }
  waitClusterBarrier(shared.full, 0);
  if (threadIndex() == 0) {
    u32 *own = out + blockIndexX() * 8;
    own[0] = u32(shared.floats[7] * 2), own[1] = u32(toFloat(shared.bf16s[7]) * 2);
    own[2] = shared.words.words[2], own[3] = shared.words.words[3];
    own[4] = u32(shared.large >> 32), own[5] = u32(shared.large), own[6] = shared.word;
  }
}

// The first block sends words in two phases of the other's barrier. That the first phase is complete, a counter in
// global memory tells it, for which it need not wait in most orders: first it waits until the other block is there.
extern "C" __global__ void counter_between_phases(u32 *counter, u32 *out) {
  struct Shared {
    u32 words[2];
    SharedBarrier full, isThere;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    initBarrier(shared.isThere, 1);
    fenceBarriers();
  }
  syncCluster();
  if (threadIndex() == 0 && clusterRank() == 0) {
    storeAsync(inBlock(&shared.words[0], 1), 1u, inBlock(&shared.full, 1));
    waitClusterBarrier(shared.isThere, 0);
    while (loadAcquire(counter) == 0)
      pause();
    storeAsync(inBlock(&shared.words[1], 1), 2u, inBlock(&shared.full, 1));
  }
  if (threadIndex() == 0 && clusterRank() == 1) {
    arrive(inBlock(&shared.isThere, 0));
    for (u32 phase = 0; phase < 2; ++phase) {
      arriveExpecting(shared.full, 4);
      waitClusterBarrier(shared.full, phase);
      out[phase] = shared.words[phase];
      arrive(counter);
    }
  }
  syncCluster();
}

// Clusters of a cooperative launch wait for each other in global memory: the last block of each publishes what its
// first block sends it, the first polls, and sends the sum of all back.
extern "C" __global__ void clusters_that_wait(u32 *counter, u32 *parts, u32 *out) {
  struct Shared {
    u32 word;
    SharedBarrier full;
  };
  Shared &shared = sharedStorage<Shared>();
  const u32 last = clusterBlocks() - 1, cluster = blockIndexX() / clusterBlocks();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    fenceBarriers();
    arriveExpecting(shared.full, 4);
  }
  syncCluster();
  if (threadIndex() == 0 && clusterRank() == 0) {
    storeAsync(inBlock(&shared.word, last), 100 + cluster, inBlock(&shared.full, last));
    while (loadAcquire(counter) < gridBlocksX() / clusterBlocks())
      pause();
    u32 sum = 0;
    for (u32 i = 0; i < gridBlocksX() / clusterBlocks(); ++i)
      sum += parts[i];
    for (u32 rank = 0; rank < last; ++rank)
      storeAsync(inBlock(&shared.word, rank), sum, inBlock(&shared.full, rank));
  }
  if (threadIndex() == 0) {
    waitClusterBarrier(shared.full, 0);
    if (clusterRank() == last) {
      parts[cluster] = shared.word;
      arrive(counter);
    }
    out[blockIndexX()] = shared.word;
  }
}

// A ring of two stages of which each block copies a slice, for all blocks; out = the sum of all words of all rows.
extern "C" __global__ void slices_for_all(const __grid_constant__ TensorMap map, u32 steps, u32 *out) {
  constexpr u32 kSliceBytes = 8 * kSwizzledRowBytes;
  struct Shared {
    alignas(kWarpgroupTileAlignment) u8 slices[2][8][kSliceBytes];
    SharedBarrier full[2], empty[2];
  };
  Shared &shared = dynamicShared<Shared>();
  const u32 blocks = clusterBlocks(), rank = clusterRank();
  if (threadIndex() == 0) {
    for (u32 i = 0; i < 2; ++i) {
      initBarrier(shared.full[i], 1);
      initBarrier(shared.empty[i], blocks);
    }
    fenceBarriers();
  }
  syncCluster();
  if (threadIndex() == 0)
    for (u32 i = 0; i < steps; ++i) {
      waitClusterBarrier(shared.empty[i % 2], i / 2 % 2 ^ 1);
      arriveExpecting(shared.full[i % 2], blocks * kSliceBytes);
      copyBoxToBlocks(SharedAddress(shared.slices[i % 2][rank]), map, {0, i32((i * blocks + rank) * 8)},
                      shared.full[i % 2], (1u << blocks) - 1);
    }
  u32 sum = 0;
  for (u32 i = 0; i < steps && warpIndex() == 1; ++i) {
    waitClusterBarrier(shared.full[i % 2], i / 2 % 2);
    const u32 *words = reinterpret_cast<const u32 *>(shared.slices[i % 2]);
    for (u32 j = laneIndex(); j < blocks * kSliceBytes / 4; j += 32)
      sum += words[j];
    syncWarp();
    if (laneIndex() < blocks)
      arrive(inBlock(&shared.empty[i % 2], laneIndex()));
  }
  sum = warpSum(sum);
  if (threadIndex() == 32)
    out[blockIndexX()] = sum;
  syncWarp();
  syncCluster();
}

// In each round every block posts two values, and sends the sums over all blocks to those of its cluster, itself among
// them, which expect them only afterwards.
extern "C" __global__ void mailboxes(StampedValue *words, float *out, u32 rounds) {
  struct Shared {
    SharedBarrier full;
    Vec<float, 2> sums[8];
  };
  Shared &shared = sharedStorage<Shared>();
  const u32 thread = threadIndex(), blocks = gridBlocksX();
  if (thread == 0) {
    initBarrier(shared.full, 1);
    fenceBarriers();
  }
  syncCluster();
  Vec<float, 2> value{float(blockIndexX()), 1.0f};
  for (u32 round = 0; round < rounds; ++round) {
    StampedValue *set = words + round % 2 * blocks * 2;
    if (thread == 0) {
      post(set + blockIndexX() * 2, value, round + 1);
      Vec<float, 2> sum{};
      for (u32 block = 0; block < blocks; ++block) {
        StampedPair pair = peek(set + block * 2);
        while (!pair.has(round + 1)) {
          retry();
          pair = peek(set + block * 2);
        }
        sum += pair.values();
      }
      for (u32 rank = 0; rank < clusterBlocks(); ++rank)
        storeAsync(inBlock(&shared.sums[clusterRank()][0], rank), sum, inBlock(&shared.full, rank));
      arriveExpecting(shared.full, clusterBlocks() * 8);
    }
    waitClusterBarrier(shared.full, round % 2);
    value = {};
    for (u32 rank = 0; rank < clusterBlocks(); ++rank)
      value += shared.sums[rank];
    syncCluster(); // what was posted orders nothing
  }
  if (thread < 2)
    out[blockIndexX() * 2 + thread] = value[int(thread)];
}

} // namespace kiln
