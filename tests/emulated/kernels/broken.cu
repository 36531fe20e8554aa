// Kernels that are wrong, each in one way. BrokenKernels.cpp looks for the lines marked '// here: NAME' in
// the errors.
#include "device/computed_here.cuh"
#include "device/device.cuh"

namespace kiln {

extern "C" __global__ void leaves_early(float *out) {
  if (threadIndex() == 40)
    return;
  syncThreads(); // here: leaves_early
  out[threadIndex()] = 1.0f;
}

extern "C" __global__ void two_barriers(float *out) {
  if (threadIndex() < 32)
    syncThreads(); // here: two_barriers first
  else
    syncThreads(); // here: two_barriers second
  out[threadIndex()] = 1.0f;
}

extern "C" __global__ void two_collectives(float *out) {
  float value = out[threadIndex()];
  if (laneIndex() < 16)
    value = shuffleXor(value, 1); // here: two_collectives first
  else
    value = warpSum(value); // here: two_collectives second
  out[threadIndex()] = value;
}

extern "C" __global__ void lane_leaves(float *out) {
  if (threadIndex() == 33)
    return;
  out[threadIndex()] = warpSum(out[threadIndex()]); // here: lane_leaves
}

extern "C" __global__ void barrier_in_half_a_warp(float *out) {
  if (laneIndex() < 16)
    syncThreads(); // here: barrier_in_half_a_warp barrier
  else
    out[threadIndex()] = warpSum(out[threadIndex()]); // here: barrier_in_half_a_warp collective
}

extern "C" __global__ void computed_in_half_a_warp(u32 *out) {
  if (laneIndex() < 16)
    out[threadIndex()] = computedHere(threadIndex()); // here: computed_in_half_a_warp
}

extern "C" __global__ void warpgroup_of_half_a_warp(u32 *out) {
  if (laneIndex() < 16)
    out[threadIndex()] = warpgroupIndex(); // here: warpgroup_of_half_a_warp
}

extern "C" __global__ void waits_forever(u32 *flag) {
  while (loadAcquire(flag) == 0)
    pause(); // here: waits_forever
}

extern "C" __global__ void misaligned_load(float *out) {
  store(out, load<4>(out + 1)); // here: misaligned_load
}

extern "C" __global__ void misaligned_store(bf16 *out) {
  storeStreaming(out + 4, load<8>(out)); // here: misaligned_store
}

KILN_DEVICE void startOneProduct(WarpgroupSums<2> &sums, Site site) {
  MmaA left = {};
  fenceProducts(left, sums);
  startProduct<bf16, RightRows::Depth, 2>(sums, 0, left, SharedAddress(&dynamicShared<u8[2048]>()), 0, false, site);
  commitProducts();
}

extern "C" __global__ void sums_without_wait(float *out) {
  WarpgroupSums<2> sums;
  startOneProduct(sums, Site::current());
  receive(sums); // here: sums_without_wait
}

extern "C" __global__ void product_without_fence(float *) {
  WarpgroupSums<2> sums;
  startOneProduct(sums, Site::current());
  waitProducts<0>();
  const SharedAddress right(&dynamicShared<u8[2048]>());
  startProduct<bf16, RightRows::Depth, 2>(sums, 0, {}, right, 0, true); // here: product_without_fence
}

extern "C" __global__ void operand_at_an_odd_row(float *) {
  WarpgroupSums<2> sums;
  fenceProducts(sums);
  const SharedAddress right(&dynamicShared<u8[2048]>());
  startProduct<bf16, RightRows::Depth, 2>(sums, 0, {}, right, kSwizzledRowBytes, true); // here: operand_at_an_odd_row
}

extern "C" __global__ void several_operands(float *) {
  WarpgroupSums<2> sums;
  fenceProducts(sums);
  const SharedAddress right = SharedAddress(&dynamicShared<u8[2048]>()) + warpIndex() * 1024;
  startProduct<bf16, RightRows::Depth, 2>(sums, 0, {}, right, 0, true); // here: several_operands
}

extern "C" __global__ void warp_leaves_warpgroup(float *out) {
  WarpgroupSums<2> sums;
  if (warpIndex() != 2)
    startOneProduct(sums, Site::current()); // here: warp_leaves_warpgroup
}

extern "C" __global__ void two_warpgroup_collectives(float *out) {
  WarpgroupSums<2> sums;
  if (warpIndex() < 2)
    startOneProduct(sums, Site::current()); // here: two_warpgroup_collectives first
  else
    startOneProduct(sums, Site::current()); // here: two_warpgroup_collectives second
}

extern "C" __global__ void product_of_nothing(float *out) {
  WarpgroupSums<2> sums;
  startOneProduct(sums, Site::current());
}

extern "C" __global__ void shared_overrun(float *out) {
  float(&slots)[64] = sharedStorage<float[64]>();
  syncThreads();                   // here: shared_overrun before
  slots[threadIndex() + 1] = 1.0f; // here: shared_overrun
  syncThreads();                   // here: shared_overrun after
  out[threadIndex()] = slots[threadIndex()];
}

extern "C" __global__ void dynamic_shared_overrun(float *out) {
  float *slots = &dynamicShared<float>();
  syncThreads();                                 // here: dynamic_shared_overrun before
  slots[threadIndex() + 1] = out[threadIndex()]; // here: dynamic_shared_overrun
}

extern "C" __global__ void global_overrun(float *out) {
  out[blockIndexX() * blockThreads() + threadIndex() + 1] = 1.0f; // here: global_overrun
}

extern "C" __global__ void shared_overread(float *out) {
  float(&slots)[64] = sharedStorage<float[64]>();
  slots[threadIndex()] = 1.0f;
  syncThreads();
  out[threadIndex()] = slots[threadIndex() + 1]; // here: shared_overread
}

extern "C" __global__ void global_overread(float *out) {
  out[threadIndex()] = out[threadIndex() + 1]; // here: global_overread
}

extern "C" __global__ void global_underrun(float *out) {
  out[static_cast<i32>(threadIndex()) - 1] = 1.0f; // here: global_underrun
}

extern "C" __global__ void missing_barrier(u32 *out) {
  u32(&slots)[64] = sharedStorage<u32[64]>();
  slots[threadIndex()] = threadIndex();
  out[threadIndex()] = slots[(threadIndex() + 1) % 64];
}

extern "C" __global__ void second_write(u32 *out) {
  u32 &word = sharedStorage<u32>();
  if (threadIndex() == 0)
    word = 5;
  syncThreads();
  if (threadIndex() == 0) {
    word = 6;
    syncWarp(1);
    word = 7; // here: second_write
  }
  if (threadIndex() == 40)
    out[0] = word; // here: second_write read
}

extern "C" __global__ void atomic_and_read(u32 *out) {
  u32 &word = sharedStorage<u32>();
  if (threadIndex() == 0)
    word = 0;
  syncThreads();
  if (threadIndex() == 1)
    atomicAdd(&word, 1u); // here: atomic_and_read atomic
  if (threadIndex() == 40)
    out[0] = word; // here: atomic_and_read plain
}

extern "C" __global__ void atomic_and_write(u64 *) {
  u64 &word = sharedStorage<u64>();
  if (threadIndex() == 0)
    word = 0;
  syncThreads();
  if (threadIndex() % 32 == 1)
    addToShared(&word, 1); // here: atomic_and_write atomic
  if (threadIndex() == 40)
    word = 7; // here: atomic_and_write plain
}

/// No race: between barriers, no access is a plain one.
extern "C" __global__ void only_atomics(float *out) {
  struct Sums {
    u32 count;
    u64 total;
    float sum;
  };
  Sums &sums = sharedStorage<Sums>();
  if (threadIndex() == 0)
    sums = {0, 0, 0.0f};
  syncThreads();
  atomicAdd(&sums.count, 1u);
  addToShared(&sums.total, threadIndex());
  atomicAdd(&sums.sum, 0.5f);
  syncThreads();
  out[threadIndex()] = float(sums.count) + float(sums.total) + sums.sum;
}

extern "C" __global__ void atomic_of_nothing(float *) {
  atomicAdd(&sharedStorage<u32>(), 1u); // here: atomic_of_nothing
}

extern "C" __global__ void atomic_overrun(u32 *out) {
  atomicAdd(out + threadIndex() + 1, 1u); // here: atomic_overrun
}

extern "C" __global__ void absent_source(float *out) {
  if (laneIndex() < 8)
    out[threadIndex()] = shuffle(out[threadIndex()], 9, 0x000000ffu); // here: absent_source
}

extern "C" __global__ void not_a_member(float *out) {
  out[threadIndex()] = warpSum<8>(out[threadIndex()], 0x000000ffu); // here: not_a_member
}

extern "C" __global__ void needs_whole_warps(float *out) {
  out[threadIndex()] = warpSum(out[threadIndex()]); // here: needs_whole_warps
}

extern "C" __global__ void reduces_over_too_few(float *out) {
  if (laneIndex() < 4)
    out[threadIndex()] = warpSum<8>(out[threadIndex()], 0x0000000fu); // here: reduces_over_too_few
}

extern "C" __global__ void much_static_shared(float *out) {
  out[0] = sharedStorage<float[12289]>()[0]; // here: much_static_shared
}

extern "C" __global__ void much_dynamic_shared(float *out) {
  out[0] = dynamicShared<float[33]>()[0]; // here: much_dynamic_shared
}

extern "C" __global__ void deep_stack(float *out) {
  volatile float local[17000];
  for (int i = 0; i < 17000; ++i)
    local[i] = out[0];
  syncThreads(); // here: deep_stack
  out[threadIndex()] = local[threadIndex()];
}

__attribute__((noinline)) float deepSum(float value) {
  volatile float local[17000];
  for (int i = 0; i < 17000; ++i)
    local[i] = value;
  return local[0] + local[16999];
}
// No primitive sees the deep frame, since it is left before the thread ends.
extern "C" __global__ void deep_call(float *out) { out[threadIndex()] = deepSum(out[0]); }

// A kernel that writes every second element, and ones that read, before they wait for it, elements from `first` on.
extern "C" __global__ void writes_odd(float *out) {
  waitForDependencies();
  out[2 * threadIndex() + 1] = 1.0f;
}
extern "C" __global__ void reads_ahead(float *out, int first) {
  const float early = out[2 * threadIndex() + u32(first)]; // here: reads_ahead
  waitForDependencies();
  out[2 * threadIndex()] = early + out[2 * threadIndex() + 1];
}

extern "C" __global__ void writes_ahead(float *out) {
  out[threadIndex()] = 2.0f; // here: writes_ahead
  waitForDependencies();
}
/// Of a counter, which is for several kernels.
extern "C" __global__ void counts_ahead(u32 *out) {
  atomicAdd(out, 1u);
  waitForDependencies();
}

extern "C" __global__ void fails_from_block_3_on(float *out) {
  if (blockIndexX() < 3 || threadIndex() > 0)
    return;
  syncThreads(); // here: fails_from_block_3_on
}

} // namespace kiln
