// One small kernel per primitive; ThreadPrimitives.cpp says what each must compute.
#include "device/device.cuh"

namespace kiln {

KILN_DEVICE u32 globalThread() { return blockIndexX() * blockThreads() + threadIndex(); }

//===----------------------------------------------------------------------===//
// index.cuh
//===----------------------------------------------------------------------===//

struct Coordinates {
  u32 thread, threads, blockX, blockY, blockZ, blocksX, blocksY, blocksZ, lane, warp;
};

extern "C" __global__ void coordinates(Coordinates *out) {
  const u32 block = (blockIndexZ() * gridBlocksY() + blockIndexY()) * gridBlocksX() + blockIndexX();
  out[block * blockThreads() + threadIndex()] = {threadIndex(), blockThreads(), blockIndexX(), blockIndexY(),
                                                 blockIndexZ(), gridBlocksX(),  gridBlocksY(), gridBlocksZ(),
                                                 laneIndex(),   warpIndex()};
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
  // The halves of the warp diverge, and take part in different numbers of collectives.
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
  bits[64 + laneIndex()] = leadingZeros(u64(in[laneIndex()]) << 8);
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

// Each round reads what the other end of the block has written in the previous round.
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

// Two counts in a row: a thread that reads the first one late must not get the second.
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

// Shared memory is fresh for every block, the same object in every call, and a different object for each type.
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

// Every thread that sees the flag also sees the value that the writer stored before the fence.
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

// All blocks pass a token to each other through global memory, several times.
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

} // namespace kiln
