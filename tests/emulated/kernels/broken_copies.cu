// Kernels with barriers in shared memory that are wrong, each in one way. BrokenCopies.cpp looks for the lines marked
// '// here: NAME' in the errors.
#include "device/bulk_copy.cuh"
#include "device/device.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"

namespace kiln {

//===----------------------------------------------------------------------===//
// A ring of two stages, which one thread fills, and a warpgroup that multiplies what has arrived.
//===----------------------------------------------------------------------===//

enum class Fault {
  None,
  NoWaitForFull,
  NoWaitForEmpty,
  WaitsForItsCopies, // but not for those who read them
  SameParity,
  NoArrival,
  EarlyArrival,
  TooFewBytes,
  TooManyBytes,
  NoWaitForProducts,
};

constexpr u32 kStages = 2, kSteps = 6;

struct Ring {
  alignas(kWarpgroupTileAlignment) u8 a[kStages][64 * kSwizzledRowBytes];
  alignas(kWarpgroupTileAlignment) u8 b[kStages][32 * kSwizzledRowBytes];
  SharedBarrier full[kStages], empty[kStages];
};

template <Fault kFault> KILN_DEVICE void fill(Ring &ring, const TensorMap &a, const TensorMap &b) {
  constexpr u32 kBytes = sizeof(ring.a[0]) + sizeof(ring.b[0]);
  constexpr u32 kExpected = kFault == Fault::TooFewBytes    ? kBytes - 1024
                            : kFault == Fault::TooManyBytes ? kBytes + 16
                                                            : kBytes;
  for (u32 i = 0; i < kSteps; ++i) {
    const u32 stage = i % kStages;
    if (kFault == Fault::WaitsForItsCopies && i >= kStages)
      waitBarrier(ring.full[stage], i / kStages % 2 ^ 1);
    else if (kFault != Fault::NoWaitForEmpty)
      waitBarrier(ring.empty[stage], i / kStages % 2 ^ 1);                        // here: empty
    arriveExpecting(ring.full[stage], kExpected);                                 // here: expect
    copyBox(SharedAddress(ring.a[stage]), a, {i32(i * 64), 0}, ring.full[stage]); // here: copy a
    copyBox(SharedAddress(ring.b[stage]), b, {i32(i * 64), 0}, ring.full[stage]); // here: copy b
  }
}

template <Fault kFault> KILN_DEVICE void multiply(Ring &ring, float *out) {
  WarpgroupSums<4> sums;
  auto release = [&](u32 i) {
    if (laneIndex() == 0 && kFault != Fault::NoArrival)
      arrive(ring.empty[i % kStages]);
  };
  for (u32 i = 0; i < kSteps; ++i) {
    const u32 stage = i % kStages;
    if (kFault != Fault::NoWaitForFull)
      waitBarrier(ring.full[stage], kFault == Fault::SameParity ? 0 : i / kStages % 2); // here: full
    fenceProducts(sums);
    for (u32 part = 0; part < 4; ++part) {
      const SharedAddress left(ring.a[stage]), right(ring.b[stage]);
      startSharedProduct<bf16>(sums, left, right, part * 32, i > 0 || part > 0); // here: product
    }
    commitProducts();
    if (kFault == Fault::EarlyArrival) {
      release(i);
      waitProducts<0>(sums);
    } else {
      waitProducts<1>(sums);
      if (i > 0)
        release(i - 1);
    }
  }
  if (kFault != Fault::NoWaitForProducts)
    waitProducts<0>(sums);
  receive(sums); // here: receive
  out[threadIndex() - 128] = sums.tiles[0].values[0];
}

template <Fault kFault> KILN_DEVICE void ringWith(const TensorMap &a, const TensorMap &b, float *out) {
  Ring &ring = sharedStorage<Ring>();
  const bool multiplies = warpgroupIndex() == 1;
  if (threadIndex() == 0) {
    for (u32 i = 0; i < kStages; ++i) {
      initBarrier(ring.full[i], 1);
      initBarrier(ring.empty[i], 4);
    }
    fenceBarriers();
  }
  syncThreads();
  if (threadIndex() == 0)
    fill<kFault>(ring, a, b);
  if (multiplies)
    multiply<kFault>(ring, out);
}

#define KILN_BROKEN_RING_PARAMETERS const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *out

extern "C" __global__ void ring(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::None>(a, b, out); }
extern "C" __global__ void no_wait_for_full(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::NoWaitForFull>(a, b, out); }
extern "C" __global__ void no_wait_for_empty(KILN_BROKEN_RING_PARAMETERS) {
  ringWith<Fault::NoWaitForEmpty>(a, b, out);
}
extern "C" __global__ void waits_for_its_copies(KILN_BROKEN_RING_PARAMETERS) {
  ringWith<Fault::WaitsForItsCopies>(a, b, out);
}
extern "C" __global__ void same_parity(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::SameParity>(a, b, out); }
extern "C" __global__ void no_arrival(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::NoArrival>(a, b, out); }
extern "C" __global__ void early_arrival(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::EarlyArrival>(a, b, out); }
extern "C" __global__ void too_few_bytes(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::TooFewBytes>(a, b, out); }
extern "C" __global__ void too_many_bytes(KILN_BROKEN_RING_PARAMETERS) { ringWith<Fault::TooManyBytes>(a, b, out); }
extern "C" __global__ void no_wait_for_products(KILN_BROKEN_RING_PARAMETERS) {
  ringWith<Fault::NoWaitForProducts>(a, b, out);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

struct OneBox {
  alignas(kWarpgroupTileAlignment) u8 bytes[32 * kSwizzledRowBytes];
  SharedBarrier full;
};

/// A box with its barrier, initialised and fenced.
KILN_DEVICE OneBox &oneBox() {
  OneBox &box = sharedStorage<OneBox>();
  if (threadIndex() == 0) {
    initBarrier(box.full, 1); // here: one box
    fenceBarriers();
  }
  syncThreads();
  return box;
}

extern "C" __global__ void box_outside(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes), map, {384, 16}, box.full); // here: box_outside
  }
}

extern "C" __global__ void misaligned_box(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes) + 128, map, {0, 0}, box.full); // here: misaligned_box
  }
}

extern "C" __global__ void box_over_its_barrier(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes) + 1024, map, {0, 0}, box.full); // here: box_over_its_barrier
  }
}

extern "C" __global__ void box_past_its_variable(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes) + 2048, map, {0, 0}, box.full); // here: box_past_its_variable
  }
}

extern "C" __global__ void copy_without_expecting(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0)
    copyBox(SharedAddress(box.bytes), map, {0, 0}, box.full); // here: copy_without_expecting
}

// Copies of bytes from the map's tensor; `skipped` of its bytes, to a place behind so many.
KILN_DEVICE void copySome(const TensorMap &map, u32 skipped, u32 behind, u32 bytes, Site site) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, bytes);
    copyBytes(SharedAddress(box.bytes) + behind, static_cast<const u8 *>(map.data) + skipped, bytes, box.full, site);
  }
}
extern "C" __global__ void bytes_from_between(const __grid_constant__ TensorMap map) {
  copySome(map, 8, 0, 32, Site::current()); // here: bytes_from_between
}
extern "C" __global__ void bytes_past_a_variable(const __grid_constant__ TensorMap map) {
  copySome(map, 0, 4096, 4096, Site::current()); // here: bytes_past_a_variable
}
extern "C" __global__ void odd_bytes(const __grid_constant__ TensorMap map) {
  copySome(map, 0, 0, 24, Site::current()); // here: odd_bytes
}

extern "C" __global__ void copy_of_any_map(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes), map, {0, 0}, box.full); // here: copy_of_any_map
  }
  waitBarrier(box.full, 0);
}

extern "C" __global__ void copy_at_the_end(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes), map, {0, 0}, box.full); // here: copy_at_the_end
  }
}

extern "C" __global__ void expects_at_the_end(const __grid_constant__ TensorMap) {
  OneBox &box = oneBox();
  if (threadIndex() == 0)
    arriveExpecting(box.full, 512); // here: expects_at_the_end
}

extern "C" __global__ void copy_over_plain_reads(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  u32 *words = reinterpret_cast<u32 *>(box.bytes);
  words[threadIndex()] = 1;
  syncThreads();
  if (threadIndex() == 40)
    words[40] += words[50]; // here: copy_over_plain_reads read
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes), map, {0, 0}, box.full); // here: copy_over_plain_reads
  }
  waitBarrier(box.full, 0);
}

extern "C" __global__ void write_over_its_own_copy(const __grid_constant__ TensorMap map) {
  OneBox &box = oneBox();
  if (threadIndex() == 0) {
    arriveExpecting(box.full, sizeof(box.bytes));
    copyBox(SharedAddress(box.bytes), map, {0, 0}, box.full); // here: write_over_its_own_copy copy
    reinterpret_cast<u32 *>(box.bytes)[1] = 2;                // here: write_over_its_own_copy
  }
  waitBarrier(box.full, 0);
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

extern "C" __global__ void no_initialisation(u32 *) {
  arrive(sharedStorage<SharedBarrier>()); // here: no_initialisation
}

extern "C" __global__ void no_block_barrier(u32 *) {
  SharedBarrier &barrier = sharedStorage<SharedBarrier>();
  if (threadIndex() == 0) {
    initBarrier(barrier, 64); // here: no_block_barrier init
    fenceBarriers();
  }
  if (threadIndex() >= 32)
    arrive(barrier); // here: no_block_barrier
}

extern "C" __global__ void no_fence(u32 *) {
  SharedBarrier &barrier = sharedStorage<SharedBarrier>();
  if (threadIndex() == 0)
    initBarrier(barrier, 64); // here: no_fence init
  syncThreads();
  if (threadIndex() >= 32)
    arrive(barrier); // here: no_fence
}

extern "C" __global__ void initialised_twice(u32 *) {
  SharedBarrier &barrier = sharedStorage<SharedBarrier>();
  if (threadIndex() > 0)
    return;
  initBarrier(barrier, 1); // here: initialised_twice first
  initBarrier(barrier, 2); // here: initialised_twice
}

template <u32 kArrivals> KILN_DEVICE SharedBarrier &oneBarrier() {
  SharedBarrier &barrier = sharedStorage<SharedBarrier>();
  if (threadIndex() == 0) {
    initBarrier(barrier, kArrivals);
    fenceBarriers();
  }
  syncThreads();
  return barrier;
}

extern "C" __global__ void overwritten_barrier(u32 *) {
  SharedBarrier &barrier = oneBarrier<64>();
  if (threadIndex() == 0)
    barrier.state = 1;
  syncThreads();
  arrive(barrier); // here: overwritten_barrier
}

extern "C" __global__ void too_many_arrivals(u32 *) {
  SharedBarrier &barrier = oneBarrier<1>();
  if (threadIndex() == 0)
    arriveExpecting(barrier, 1024);
  syncThreads();
  if (threadIndex() == 33)
    arrive(barrier); // here: too_many_arrivals
}

extern "C" __global__ void phase_that_is_passed(u32 *) {
  SharedBarrier &barrier = oneBarrier<1>();
  if (threadIndex() == 0) {
    arrive(barrier);
    arrive(barrier);
  }
  if (threadIndex() == 32)
    waitBarrier(barrier, 0); // here: phase_that_is_passed
}

extern "C" __global__ void no_arrival_of_some(u32 *) {
  SharedBarrier &barrier = oneBarrier<64>();
  if (threadIndex() < 60)
    arrive(barrier);
  if (threadIndex() < 40)
    waitBarrier(barrier, 0); // here: no_arrival_of_some 0
  else if (threadIndex() < 48)
    waitBarrier(barrier, 0); // here: no_arrival_of_some 40
}

//===----------------------------------------------------------------------===//
// Plain accesses
//===----------------------------------------------------------------------===//

// Thread 0 hands a word to warps 1 to 3, which give it back, all of them or only the first two.
template <u32 kReaders> KILN_DEVICE void handOver(u32 *out) {
  struct Shared {
    u32 word;
    SharedBarrier full, empty;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    initBarrier(shared.empty, kReaders);
    fenceBarriers();
  }
  syncThreads();
  if (threadIndex() == 0) {
    shared.word = 5;
    arrive(shared.full);
    waitBarrier(shared.empty, 0);
    shared.word = 6; // here: write
  }
  if (warpIndex() == 0 || laneIndex() > 0)
    return;
  waitBarrier(shared.full, 0);
  out[warpIndex()] = shared.word; // here: read
  if (warpIndex() <= kReaders)
    arrive(shared.empty);
}
extern "C" __global__ void one_reader_is_missing(u32 *out) { handOver<2>(out); }
extern "C" __global__ void no_reader_is_missing(u32 *out) { handOver<3>(out); }

extern "C" __global__ void write_after_arrival(u32 *out) {
  struct Shared {
    u32 word;
    SharedBarrier full;
  };
  Shared &shared = sharedStorage<Shared>();
  if (threadIndex() == 0) {
    initBarrier(shared.full, 1);
    shared.word = 1;
    fenceBarriers();
  }
  syncThreads();
  if (threadIndex() == 0) {
    arrive(shared.full);
    shared.word = 5; // here: write_after_arrival write
  }
  if (threadIndex() == 32) {
    waitBarrier(shared.full, 0);
    out[0] = shared.word; // here: write_after_arrival read
  }
}

extern "C" __global__ void registers_of_some(u32 *) {
  if (threadIndex() < 64)
    takeRegisters<240>(); // here: registers_of_some
}

} // namespace kiln
