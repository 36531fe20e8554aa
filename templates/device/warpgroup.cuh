//===- warpgroup.cuh - matrix products of four warps -------------------------------===//
//
// wgmma of sm_90a. On other GPUs mma.sync computes the same products, so that a plan for Hopper also runs there. A
// warpgroup is 128 threads; the index of its first thread is a multiple of 128. It starts products and goes on; their
// sums are available after a wait:
//
//   fenceProducts(sums, a);
//   startProduct<T, RightRows::Columns, 8>(sums, 0, a, b, /*offset=*/0, /*adds=*/true); // as many as wanted
//   commitProducts();
//   waitProducts<0>(sums);
//   receive(sums);
//
// A wait may name the sums whose products it waits for, one or an array: those whose operands in shared memory are
// overwritten before the sums are received.
//
// Between start and wait, neither the registers of a product nor the shared memory that it reads may be touched. Every
// thread of the warpgroup must call these at the same place.
//
// The left operand is 64 rows by 16 elements in registers, the sums are 64 rows of floats. Both have the layout of
// tensor_core.cuh, with rows 16 i to 16 i + 15 in warp i. The right operand is in shared memory, in rows of 128 bytes.
// Their chunks of 16 bytes are permuted by the row (swizzledOffset with the row as key), in a tile that is aligned to
// kWarpgroupTileAlignment. The rounding of products and sums is unspecified, as there.
//
// In the emulator, sums are NaN from start to receive(). A wait that names sums computes their finished products, and
// receive() the rest. So memory that is overwritten in between is noticed then. With checked accesses, memory that a
// copy has not reached yet is noticed at the start. A missing fenceAsyncCopies() is not noticed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#if !defined(__CUDACC__)
#include "device/emulated_products.cuh"
#endif

namespace kiln {

/// Whether a thread may have so many registers at most.
KILN_DEVICE constexpr bool isRegisterCount(int count) { return count % 8 == 0 && count >= 24 && count <= 256; }

/// The content of a row of the right operand's tile.
enum class RightRows {
  Columns, ///< consecutive elements of the depth of one column: row i is column i
  Depth,   ///< consecutive columns at one step of the depth: row i is step i
};

#if defined(__CUDACC__)

/// Index of this thread's warpgroup in the block. All lanes of a warp call it.
KILN_DEVICE u32 warpgroupIndex(Site = Site::current()) {
  return __shfl_sync(0xffffffffu, threadIndex() / kWarpgroupSize, 0);
}

/// Sums of 64 rows and 8 · kTiles columns.
template <int kTiles> struct WarpgroupSums {
  MmaSums tiles[kTiles];
};

/// Keeps the compiler from moving definitions or uses of these registers across this place.
KILN_DEVICE void pinRegisters(MmaA &a) {
  asm volatile("" : "+r"(a.words[0]), "+r"(a.words[1]), "+r"(a.words[2]), "+r"(a.words[3])::"memory");
}
KILN_DEVICE void pinRegisters(MmaSums &sums) {
  asm volatile("" : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])::"memory");
}
template <class Operand, int kCount> KILN_DEVICE void pinRegisters(Operand (&operands)[kCount]) {
#pragma unroll
  for (Operand &operand : operands)
    pinRegisters(operand);
}
template <int kTiles> KILN_DEVICE void pinRegisters(WarpgroupSums<kTiles> &sums) { pinRegisters(sums.tiles); }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Sets the most registers of each thread of the warpgroup, a multiple of 8 from 24 to 256: fewer for a role that needs
/// few, and then more for one that needs many. All threads of the warpgroup call it; on other GPUs it traps.
template <int kRegisters> KILN_DEVICE void giveRegisters(Site = Site::current()) {
  static_assert(isRegisterCount(kRegisters));
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> KILN_DEVICE void takeRegisters(Site = Site::current()) {
  static_assert(isRegisterCount(kRegisters));
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Makes the calling thread's writes, and its asynchronous copies that it has waited for, visible to products after the
/// next barrier. Products read shared memory outside the order of other accesses.
KILN_DEVICE void fenceAsyncCopies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Orders the registers of the operands (MmaA, WarpgroupSums, arrays of them) before the next products. Needed before
/// the first product, and after a wait before the next product.
template <class... Operands> KILN_DEVICE void fenceProducts(Operands &...operands) {
  (pinRegisters(operands), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// The name of an element type in PTX.
template <class T> struct PtxElement;
template <> struct PtxElement<bf16> {
  static constexpr char kName[] = "bf16";
};
template <> struct PtxElement<f16> {
  static constexpr char kName[] = "f16";
};

/// The matrix descriptor of an operand that starts at `address`: so many bytes from a group of 8 rows to the next,
/// chunks of 16 bytes permuted within 128 (PTX ISA, "Matrix descriptor format").
KILN_DEVICE u64 warpgroupDescriptor(SharedAddress address, u64 groupBytes = kWarpgroupTileAlignment) {
  constexpr u64 kPermuted128 = u64(1) << 62;
  return kPermuted128 | groupBytes / 16 << 32 | u64(1) << 16 | (address.raw() & 0x3ffff) >> 4;
}

/// Starts sums.tiles[first .. first + kCount) += A · B, or = A · B if `adds` is false; kCount is 8 or 2. B begins at
/// `offset` bytes behind `b`: at the row of its first column (RightRows::Columns) or step of the depth, a multiple of
/// 8, and there at a chunk, before the permutation.
template <class T, RightRows kRows, int kCount, int kTiles>
KILN_DEVICE void startProduct(WarpgroupSums<kTiles> &sums, int first, const MmaA &a, SharedAddress b, u32 offset,
                              bool adds, Site = Site::current()) {
  static_assert(kCount == 8 || kCount == 2, "64 or 16 columns");
  const u64 right = warpgroupDescriptor(b) + offset / 16;
  MmaSums *s = sums.tiles + first;
  if (!adds)
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      s[i] = MmaSums{}; // the compiler need not keep older values, since they are not read
  if constexpr (kCount == 8)
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.%39.%39 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                 "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
                 "%31}, {%32, %33, %34, %35}, %36, adds, 1, 1, %38;}"
                 : "+f"(s[0].values[0]), "+f"(s[0].values[1]), "+f"(s[0].values[2]), "+f"(s[0].values[3]),
                   "+f"(s[1].values[0]), "+f"(s[1].values[1]), "+f"(s[1].values[2]), "+f"(s[1].values[3]),
                   "+f"(s[2].values[0]), "+f"(s[2].values[1]), "+f"(s[2].values[2]), "+f"(s[2].values[3]),
                   "+f"(s[3].values[0]), "+f"(s[3].values[1]), "+f"(s[3].values[2]), "+f"(s[3].values[3]),
                   "+f"(s[4].values[0]), "+f"(s[4].values[1]), "+f"(s[4].values[2]), "+f"(s[4].values[3]),
                   "+f"(s[5].values[0]), "+f"(s[5].values[1]), "+f"(s[5].values[2]), "+f"(s[5].values[3]),
                   "+f"(s[6].values[0]), "+f"(s[6].values[1]), "+f"(s[6].values[2]), "+f"(s[6].values[3]),
                   "+f"(s[7].values[0]), "+f"(s[7].values[1]), "+f"(s[7].values[2]), "+f"(s[7].values[3])
                 : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "l"(right), "r"(int(adds)),
                   "n"(int(kRows == RightRows::Depth)), "C"(PtxElement<T>::kName));
  else
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, %13, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.%15.%15 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, "
                 "%11}, %12, adds, 1, 1, %14;}"
                 : "+f"(s[0].values[0]), "+f"(s[0].values[1]), "+f"(s[0].values[2]), "+f"(s[0].values[3]),
                   "+f"(s[1].values[0]), "+f"(s[1].values[1]), "+f"(s[1].values[2]), "+f"(s[1].values[3])
                 : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "l"(right), "r"(int(adds)),
                   "n"(int(kRows == RightRows::Depth)), "C"(PtxElement<T>::kName));
}

/// Makes a group of the products that the warpgroup has started since the last call.
KILN_DEVICE void commitProducts(Site = Site::current()) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most the latest kPending groups are in flight.
template <int kPending> KILN_DEVICE void waitProducts(Site = Site::current()) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// The same; names sums whose products it waits for.
template <int kPending, class Sums> KILN_DEVICE void waitProducts(Sums &, Site = Site::current()) {
  waitProducts<kPending>();
}

/// Makes sums readable after the wait for their products; to be called at once after the wait.
template <int kTiles> KILN_DEVICE void receive(WarpgroupSums<kTiles> &sums, Site = Site::current()) {
  pinRegisters(sums);
}

#else

template <int kRegisters> KILN_DEVICE void giveRegisters(Site = Site::current()) { asm volatile("trap;"); }
template <int kRegisters> KILN_DEVICE void takeRegisters(Site = Site::current()) { asm volatile("trap;"); }

KILN_DEVICE void fenceAsyncCopies() {}
template <class... Operands> KILN_DEVICE void fenceProducts(Operands &...) {}
KILN_DEVICE void commitProducts(Site = Site::current()) {}
template <int kPending> KILN_DEVICE void waitProducts(Site = Site::current()) {}
template <int kPending, class Sums> KILN_DEVICE void waitProducts(Sums &, Site = Site::current()) {}
template <int kTiles> KILN_DEVICE void receive(WarpgroupSums<kTiles> &, Site = Site::current()) {}

/// Computes the product at once by mma.sync: each warp its own rows, 16 columns at a time.
template <class T, RightRows kRows, int kCount, int kTiles>
KILN_DEVICE void startProduct(WarpgroupSums<kTiles> &sums, int first, const MmaA &a, SharedAddress b, u32 offset,
                              bool adds, Site = Site::current()) {
  const u32 lane = laneIndex();
  const bool isColumns = kRows == RightRows::Columns;
  const u32 row = isColumns ? lane / 16 * 8 + lane % 8 : lane % 16, chunk = isColumns ? lane / 8 % 2 : lane / 16;
#pragma unroll
  for (int n = 0; n < kCount; n += 2) {
    const u32 moved = isColumns ? u32(n) * 8 * kSwizzledRowBytes : u32(n) * kChunkBytes;
    const SharedAddress linear = b + offset + moved + row * kSwizzledRowBytes + chunk * kChunkBytes;
    const SharedAddress from = linear ^ linear.raw() / kSwizzledRowBytes % kRowChunks * kChunkBytes;
    u32 words[4];
    if constexpr (isColumns)
      loadMatrices(words, from);
    else
      loadMatricesTransposed(words, from);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      MmaSums &tile = sums.tiles[first + n + i];
      if (!adds)
        tile = {};
      multiplyAdd<T>(tile, a, {{words[2 * i], words[2 * i + 1]}});
    }
  }
}

#endif

#else

KILN_DEVICE u32 warpgroupIndex(Site site = Site::current()) {
  emulatedMeet(site);
  return threadIndex() / kWarpgroupSize;
}

/// A lane's input to a change of the number of registers.
struct EmulatedRegisters {
  static const char *combine(void *const *) { return nullptr; }
};
template <int kRegisters> KILN_DEVICE void giveRegisters(Site site = Site::current()) {
  static_assert(isRegisterCount(kRegisters));
  EmulatedRegisters lane;
  emulatedThread->syncWarpgroup(&lane, EmulatedRegisters::combine, site);
}
template <int kRegisters> KILN_DEVICE void takeRegisters(Site site = Site::current()) {
  giveRegisters<kRegisters>(site);
}

KILN_DEVICE void fenceAsyncCopies() {}

template <class Operand> KILN_DEVICE void pinRegisters(Operand &) {}
template <class... Operands> KILN_DEVICE void fenceProducts(Operands &...) { emulatedThread->areProductsFenced = true; }

template <class T, RightRows kRows, int kCount, int kTiles>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void startProduct(WarpgroupSums<kTiles> &sums, int first, const MmaA &a,
                                                           SharedAddress b, u32 offset, bool adds,
                                                           Site site = Site::current()) {
  static_assert(kCount == 8 || kCount == 2, "64 or 16 columns");
  const char *right = static_cast<const char *>((b + offset).pointer());
  emulatedCheckAligned(right, kChunkBytes, site);
  if (reinterpret_cast<u64>(right) % kWarpgroupTileAlignment >= kSwizzledRowBytes)
    emulatedThread->fail("product of a warpgroup: expected a right operand that begins at a multiple of 8 rows", site);
  emulatedStart(sums,
                {.a = a,
                 .right = right,
                 .first = first,
                 .count = kCount,
                 .rowsAreDepth = kRows == RightRows::Depth,
                 .adds = adds,
                 .decode = emulatedDecodeChunk<T>,
                 .code = KILN_EMULATED_CALLER},
                site);
}

KILN_DEVICE void commitProducts(Site = Site::current()) { ++emulatedThread->committedProducts; }

template <int kPending> KILN_DEVICE void waitProducts(Site = Site::current()) {
  EmulatedThread &self = *emulatedThread;
  const u32 done = self.committedProducts < kPending ? 0 : self.committedProducts - kPending;
  self.finishedProducts = max(self.finishedProducts, done);
  self.areProductsFenced = false;
}
template <int kPending, class Sums> KILN_DEVICE void waitProducts(Sums &sums, Site site = Site::current()) {
  waitProducts<kPending>(site);
  emulatedFinish(sums, site);
}

template <int kTiles> KILN_DEVICE void receive(WarpgroupSums<kTiles> &sums, Site site = Site::current()) {
  EmulatedProducts &started = sums.started;
  if (!started.isOpen)
    return;
  if (started.group >= emulatedThread->finishedProducts)
    emulatedThread->fail("sums of a warpgroup: expected a wait for their products", site);
  emulatedFinish(sums, site);
  __builtin_memcpy(sums.tiles, sums.results, sizeof(sums.tiles));
  started.isOpen = false;
}

#endif

/// Adds sums that have been received.
template <int kTiles> KILN_DEVICE void addSums(WarpgroupSums<kTiles> &to, const WarpgroupSums<kTiles> &more) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to.tiles[tile].values[i] += more.tiles[tile].values[i];
}

template <int kTiles, int kCount>
KILN_DEVICE void receive(WarpgroupSums<kTiles> (&sums)[kCount], Site site = Site::current()) {
#pragma unroll
  for (WarpgroupSums<kTiles> &one : sums)
    receive(one, site);
}

} // namespace kiln
