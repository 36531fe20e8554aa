// Kernels whose blocks form clusters of two and that are wrong, each in one way. BrokenClusters.cpp looks for the lines
// marked '// here: NAME' in the errors.
#include "device/cluster_copy.cuh"
#include "device/device.cuh"

namespace kiln {

struct alignas(16) Words {
  u32 words[64];
  SharedBarrier full, empty;
  u64 large[2];
};
KILN_DEVICE Words &words() { return sharedStorage<Words>(); }
KILN_DEVICE u32 other() { return clusterRank() ^ 1; }
KILN_DEVICE bool isThreadOf(u32 rank) { return clusterRank() == rank && threadIndex() == 0; }

// Every thread has a word of its own block's; thread 0 initialises barriers of so many arrivals.
template <u32 kArrivals = 1> KILN_DEVICE Words &start(u32 bytes = 0) {
  Words &shared = words();
  shared.words[threadIndex()] = threadIndex();
  if (threadIndex() == 0) {
    initBarrier(shared.full, kArrivals);
    initBarrier(shared.empty, kArrivals); // here: init empty
    fenceBarriers();
    if (bytes > 0)
      arriveExpecting(shared.full, bytes); // here: expecting
  }
  syncCluster();
  return shared;
}

//===----------------------------------------------------------------------===//
// Blocks that have not started or have ended
//===----------------------------------------------------------------------===//

extern "C" __global__ void no_sync_at_the_start(u32 *out) {
  words().words[threadIndex()] = 1;
  syncThreads();
  out[blockIndexX()] = load(inBlock(&words().words[1], other())); // here: no_sync_at_the_start
  syncCluster();
}

extern "C" __global__ void arrival_without_a_sync_at_the_start(u32 *) {
  Words &shared = words();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    fenceBarriers();
  }
  syncThreads();
  if (threadIndex() == 0)
    arrive(inBlock(&shared.full, other())); // here: arrival_without_a_sync_at_the_start
  waitClusterBarrier(shared.full, 0);
}

extern "C" __global__ void no_sync_at_the_end(u32 *out) {
  Words &shared = start();
  if (isThreadOf(0))
    out[0] = load(inBlock(&shared.words[1], other())); // here: no_sync_at_the_end
}

extern "C" __global__ void no_wait_at_the_end(u32 *) {
  Words &shared = start();
  if (isThreadOf(0))
    store(inBlock(&shared.words[1], other()), 5u); // here: no_wait_at_the_end
  arriveCluster();
}

extern "C" __global__ void arrival_at_the_end(u32 *) {
  Words &shared = start();
  if (isThreadOf(0))
    arrive(inBlock(&shared.full, other())); // here: arrival_at_the_end
}

extern "C" __global__ void bytes_at_the_end(u32 *) {
  Words &shared = start(clusterRank() == 0 ? 4 : 0);
  if (isThreadOf(1))
    storeAsync(inBlock(&shared.words[1], 0), 5u, inBlock(&shared.full, 0)); // here: bytes_at_the_end
  syncCluster();
}

extern "C" __global__ void expects_at_the_end(u32 *) { start(clusterRank() == 0 ? 4 : 0); }

//===----------------------------------------------------------------------===//
// Races
//===----------------------------------------------------------------------===//

extern "C" __global__ void no_sync_before_a_load(u32 *out) {
  Words &shared = start();
  if (isThreadOf(1))
    shared.words[2] = 8; // here: no_sync_before_a_load write
  if (isThreadOf(0))
    out[0] = load(inBlock(&shared.words[2], 1)); // here: no_sync_before_a_load
  syncCluster();
}

extern "C" __global__ void no_sync_after_a_store(u32 *out) {
  Words &shared = start();
  if (isThreadOf(0))
    store(inBlock(&shared.words[2], 1), 6u); // here: no_sync_after_a_store
  if (isThreadOf(1))
    out[0] = shared.words[2]; // here: no_sync_after_a_store read
  syncCluster();
}

// The barrier of each block does not order what another block does.
extern "C" __global__ void barriers_of_blocks_only(u32 *) {
  Words &shared = start();
  if (isThreadOf(0))
    store(inBlock(&shared.words[2], 1), 6u); // here: barriers_of_blocks_only
  syncThreads();
  if (isThreadOf(1))
    shared.words[2] = 7; // here: barriers_of_blocks_only own
  syncCluster();
}

extern "C" __global__ void access_between_the_halves(u32 *out) {
  Words &shared = start();
  arriveCluster();
  if (isThreadOf(1))
    shared.words[2] = 8; // here: access_between_the_halves write
  waitCluster();
  if (isThreadOf(0))
    out[0] = load(inBlock(&shared.words[2], 1)); // here: access_between_the_halves
  syncCluster();
}

extern "C" __global__ void no_wait_for_bytes(u32 *out) {
  Words &shared = start(4);
  if (threadIndex() == 0)
    storeAsync(inBlock(&shared.words[2], other()), 6u, inBlock(&shared.full, other())); // here: no_wait_for_bytes
  if (threadIndex() == 32)
    out[0] = shared.words[2]; // here: no_wait_for_bytes read
  if (warpIndex() == 0)
    waitClusterBarrier(shared.full, 0);
}

// Thread 0 of block 0 sends a word twice; the reader in block 1 does not say that it has read the first.
template <bool kWaits> KILN_DEVICE void sendTwice(u32 *out) {
  Words &shared = start(clusterRank() == 1 ? 4 : 0);
  if (isThreadOf(0))
    for (u32 i = 0; i < 2; ++i) {
      if (i > 0)
        waitClusterBarrier(shared.empty, 0);
      storeAsync(inBlock(&shared.words[2], 1), 5u + i, inBlock(&shared.full, 1)); // here: send
    }
  if (clusterRank() == 1 && threadIndex() == 32) {
    waitClusterBarrier(shared.full, 0);
    if (kWaits)
      out[0] = shared.words[2];
    arriveExpecting(shared.full, 4);
    arrive(inBlock(&shared.empty, 0));
    if (!kWaits)
      out[0] = shared.words[2]; // here: read
    waitClusterBarrier(shared.full, 1);
  }
  syncWarp();
  syncCluster();
}
extern "C" __global__ void sent_in_turn(u32 *out) { sendTwice<true>(out); }
extern "C" __global__ void sent_too_early(u32 *out) { sendTwice<false>(out); }

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

extern "C" __global__ void rank_outside(u32 *) {
  start();
  inBlock(words().words, 2); // here: rank_outside
}

extern "C" __global__ void address_in_global_memory(u32 *out) {
  start();
  inBlock(out, other()); // here: address_in_global_memory
}

extern "C" __global__ void load_past_its_variable(u32 *out) {
  Words &shared = start();
  if (isThreadOf(0))
    out[0] = load(inBlock(shared.words, 1) + 72); // here: load_past_its_variable
  syncCluster();
}

extern "C" __global__ void misaligned_store(u32 *) {
  Words &shared = start();
  if (isThreadOf(0))
    store(inBlock(reinterpret_cast<float *>(shared.words), 1) + 2, Vec<float, 4>::fill(1.0f)); // here: misaligned_store
  syncCluster();
}

extern "C" __global__ void bytes_over_a_barrier(u32 *) {
  Words &shared = start(8);
  if (isThreadOf(0))
    storeAsync(inBlock(&shared.empty.state, 1), u64(1), inBlock(&shared.full, 1)); // here: bytes_over_a_barrier
  syncCluster();
}

extern "C" __global__ void barrier_of_another_block(u32 *) {
  Words &shared = start(4);
  if (isThreadOf(0))
    storeAsync(inBlock(&shared.words[2], 1), 6u, inBlock(&shared.full, 0)); // here: barrier_of_another_block
  syncCluster();
}

//===----------------------------------------------------------------------===//
// Bytes and barriers
//===----------------------------------------------------------------------===//

extern "C" __global__ void too_many_bytes(u32 *) {
  Words &shared = start(4);
  if (isThreadOf(0))
    storeAsync(inBlock(shared.large, 1), u64(6), inBlock(&shared.full, 1)); // here: too_many_bytes
  syncCluster();
}

extern "C" __global__ void too_few_bytes(u32 *) {
  Words &shared = start(8);
  if (threadIndex() == 0)
    storeAsync(inBlock(&shared.words[2], other()), 6u, inBlock(&shared.full, other()));
  if (clusterRank() == 1)
    waitClusterBarrier(shared.full, 0); // here: too_few_bytes
  syncCluster();                        // here: too_few_bytes other
}

// Block 1 expects bytes when they may be there already: `kExpected` of 8.
template <u32 kExpected> KILN_DEVICE void expectLate() {
  Words &shared = start();
  if (isThreadOf(0)) {
    storeAsync(inBlock(&shared.words[2], 1), 6u, inBlock(&shared.full, 1));
    storeAsync(inBlock(&shared.words[3], 1), 6u, inBlock(&shared.full, 1)); // here: expecting late send
  }
  if (isThreadOf(1))
    arriveExpecting(shared.full, kExpected); // here: expecting late
  if (clusterRank() == 1)
    waitClusterBarrier(shared.full, 0);
  syncCluster();
}
extern "C" __global__ void expecting_late(u32 *) { expectLate<8>(); }
extern "C" __global__ void expecting_less(u32 *) { expectLate<4>(); }

// Nothing tells block 0 that the first phase is complete when it sends the bytes of the second.
extern "C" __global__ void a_phase_ahead(u32 *) {
  Words &shared = start(clusterRank() == 1 ? 4 : 0);
  if (isThreadOf(0))
    for (u32 i = 0; i < 2; ++i)
      storeAsync(inBlock(&shared.words[i], 1), 6u, inBlock(&shared.full, 1)); // here: a_phase_ahead
  if (clusterRank() == 1) {
    waitClusterBarrier(shared.full, 0);
    if (threadIndex() == 0)
      arriveExpecting(shared.full, 4);
    waitClusterBarrier(shared.full, 1);
  }
  syncCluster();
}

extern "C" __global__ void wait_without_the_cluster(u32 *) {
  Words &shared = start();
  if (threadIndex() == 0)
    arrive(inBlock(&shared.full, other()));
  waitBarrier(shared.full, 0); // here: wait_without_the_cluster
  syncCluster();
}

extern "C" __global__ void no_fence_of_a_barrier(u32 *) {
  Words &shared = words();
  if (threadIndex() == 0)
    initBarrier(shared.full, 1); // here: no_fence_of_a_barrier init
  syncCluster();
  if (isThreadOf(0))
    arrive(inBlock(&shared.full, 1)); // here: no_fence_of_a_barrier
  syncCluster();
}

extern "C" __global__ void barrier_initialised_too_late(u32 *) {
  Words &shared = words();
  syncCluster();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    fenceBarriers();
  }
  syncThreads();
  if (isThreadOf(0))
    arrive(inBlock(&shared.full, 1)); // here: barrier_initialised_too_late
  syncCluster();
}

//===----------------------------------------------------------------------===//
// Boxes for both blocks
//===----------------------------------------------------------------------===//

struct TwoBoxes {
  alignas(kWarpgroupTileAlignment) u8 boxes[2][8 * kSwizzledRowBytes];
  SharedBarrier full, empty;
};

// What is wrong with copies of boxes for both.
enum Mistake {
  NoMistake,
  NoWaitForReaders,    // of the other block
  NoWaitForBytes,      // by the readers
  WrongPhaseOfBytes,   // the second time
  WrongPhaseOfReaders, // the second time
  ReadsBehindRelease,
  NoWaitAtTheEnd, // for the other block's releases
};

// Each block copies a box to both, twice. Whoever copies must wait for the readers of both blocks; that is all a block
// has to wait for before it ends.
template <Mistake kMistake, u32 kBlocks = 3, u32 kBytes = 2048>
KILN_DEVICE void boxesForBoth(const TensorMap &map, u32 *out) {
  constexpr bool kWaits = kMistake != NoWaitForReaders;
  TwoBoxes &shared = sharedStorage<TwoBoxes>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    initBarrier(shared.empty, kWaits ? 2 : 1);
    fenceBarriers();
  }
  syncCluster();
  for (u32 i = 0; i < 2; ++i) {
    if (threadIndex() == 0) {
      waitClusterBarrier(shared.empty, kMistake == WrongPhaseOfReaders ? 1 : i % 2 ^ 1);
      arriveExpecting(shared.full, kBytes);
      copyBoxToBlocks(SharedAddress(shared.boxes[clusterRank()]), map, {0, 0}, shared.full, kBlocks);
    }
    if (threadIndex() == 32) {
      if (kMistake != NoWaitForBytes)
        waitClusterBarrier(shared.full, kMistake == WrongPhaseOfBytes ? 0 : i % 2);
      auto read = [&] {
        for (u32 j = 0; j < 2; ++j)
          out[blockIndexX()] += reinterpret_cast<const u32 *>(shared.boxes[j])[5];
      };
      if (kMistake != ReadsBehindRelease)
        read();
      arrive(inBlock(&shared.empty, clusterRank()));
      if (kWaits)
        arrive(inBlock(&shared.empty, other()));
      if (kMistake == ReadsBehindRelease)
        read();
    }
    syncWarp();
  }
  if (kMistake == NoWaitForBytes)
    waitClusterBarrier(shared.full, 1);
  if (threadIndex() == 0 && kMistake != NoWaitAtTheEnd)
    waitClusterBarrier(shared.empty, 1);
}
#define KILN_BOX_PARAMETERS const __grid_constant__ TensorMap map, u32 *out
extern "C" __global__ void boxes(KILN_BOX_PARAMETERS) { boxesForBoth<NoMistake>(map, out); }
extern "C" __global__ void boxes_without_a_wait(KILN_BOX_PARAMETERS) { boxesForBoth<NoWaitForReaders>(map, out); }
extern "C" __global__ void boxes_read_too_early(KILN_BOX_PARAMETERS) { boxesForBoth<NoWaitForBytes>(map, out); }
extern "C" __global__ void boxes_read_too_late(KILN_BOX_PARAMETERS) { boxesForBoth<ReadsBehindRelease>(map, out); }
extern "C" __global__ void boxes_of_an_old_phase(KILN_BOX_PARAMETERS) { boxesForBoth<WrongPhaseOfBytes>(map, out); }
extern "C" __global__ void boxes_for_old_readers(KILN_BOX_PARAMETERS) { boxesForBoth<WrongPhaseOfReaders>(map, out); }
extern "C" __global__ void boxes_at_the_end(KILN_BOX_PARAMETERS) { boxesForBoth<NoWaitAtTheEnd>(map, out); }
extern "C" __global__ void boxes_outside(KILN_BOX_PARAMETERS) { boxesForBoth<NoMistake, 5>(map, out); }
extern "C" __global__ void boxes_of_one(KILN_BOX_PARAMETERS) { boxesForBoth<NoMistake, 3, 1024>(map, out); }

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

extern "C" __global__ void arrives_twice(u32 *) {
  arriveCluster();
  arriveCluster(); // here: arrives_twice
}

extern "C" __global__ void waits_without_arriving(u32 *) {
  waitCluster(); // here: waits_without_arriving
}

extern "C" __global__ void lanes_wait_apart(u32 *) {
  arriveCluster();
  if (laneIndex() < 16)
    waitCluster(); // here: lanes_wait_apart 0
  else
    waitCluster(); // here: lanes_wait_apart 16
}

// Block 0 waits for an arrival by block 1, which waits at the cluster's barrier.
extern "C" __global__ void deadlock_of_blocks(u32 *) {
  Words &shared = start();
  if (clusterRank() == 0)
    waitClusterBarrier(shared.full, 0); // here: deadlock_of_blocks 0
  else
    syncCluster(); // here: deadlock_of_blocks 1
  if (isThreadOf(1))
    arrive(inBlock(&shared.full, 0));
  if (clusterRank() == 0)
    syncCluster();
}

// Some threads of block 0 are missing at the cluster's barrier.
extern "C" __global__ void barrier_without_some(u32 *) {
  if (clusterRank() == 0 && threadIndex() >= 32)
    syncThreads(); // here: barrier_without_some 0
  else
    syncCluster(); // here: barrier_without_some 1
}

} // namespace kiln
