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

namespace kiln {

constexpr u32 kWarpgroupSize = 128;

/// Whether a thread may have so many registers at most.
KILN_DEVICE constexpr bool isRegisterCount(int count) { return count % 8 == 0 && count >= 24 && count <= 256; }

/// The content of a row of the right operand's tile.
enum class RightRows {
  Columns, ///< consecutive elements of the depth of one column: row i is column i
  Depth,   ///< consecutive columns at one step of the depth: row i is step i
};

#if defined(__CUDACC__)

/// Index of this thread's warpgroup in the block.
KILN_DEVICE u32 warpgroupIndex() { return __shfl_sync(0xffffffffu, threadIndex() / kWarpgroupSize, 0); }

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

/// The matrix descriptor of an operand that starts at `address`: 1024 bytes between groups of 8 rows, chunks of 16
/// bytes permuted within 128 (PTX ISA, "Matrix descriptor format").
KILN_DEVICE u64 warpgroupDescriptor(SharedAddress address) {
  constexpr u64 kGroupBytes = kWarpgroupTileAlignment, kPermuted128 = u64(1) << 62;
  return kPermuted128 | kGroupBytes / 16 << 32 | u64(1) << 16 | (address.raw() & 0x3ffff) >> 4;
}

/// Starts sums.tiles[first .. first + kCount) += A · B, or = A · B if `adds` is false; kCount is 8 or 2. B begins at
/// `b`: at the row of its first column (RightRows::Columns) or step of the depth, a multiple of 8, and there at a
/// chunk, before the permutation.
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

KILN_DEVICE u32 warpgroupIndex() { return threadIndex() / kWarpgroupSize; }

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

/// A started product, as a lane stores it.
struct EmulatedWarpgroupProduct {
  MmaA a;
  const char *left; ///< the left operand in shared memory; null if it is in `a`
  const char *right;
  int first, count; ///< tiles of the sums
  bool rowsAreDepth, adds;
  void (*decode)(const void *chunk, float (&values)[8]);
  u32 group;        ///< the number of its group among the thread's
  const void *code; ///< the place of the start

  bool hasSameOperands(const EmulatedWarpgroupProduct &other) const {
    return left == other.left && right == other.right && first == other.first && adds == other.adds;
  }

  /// A chunk of an operand at `from`: rows are permuted by bits of the address.
  KILN_EMULATED_UNCHECKED static const char *chunkAt(const char *from, u32 row, u32 chunk) {
    const u64 linear = reinterpret_cast<u64>(from) + row * kSwizzledRowBytes + chunk * kChunkBytes;
    return reinterpret_cast<const char *>(linear ^ linear / kSwizzledRowBytes % kRowChunks * kChunkBytes);
  }
  /// Rows of the right operand, and the chunks of each that are read. Those of the left operand have two.
  u32 rightRows() const { return rowsAreDepth ? 16 : u32(8 * count); }
  u32 rightChunks() const { return rowsAreDepth ? u32(count) : 2; }

  /// A chunk that the products of a warp read.
  KILN_EMULATED_UNCHECKED const char *read(const char *from, u32 row, u32 chunk) const {
    const char *at = chunkAt(from, row, chunk);
#if defined(KILN_EMULATED_CHECKED)
    emulatedThread->checkOperand(at, kChunkBytes, code);
#endif
    return at;
  }
};

/// The products of sums between start and receive() that have not been computed.
struct EmulatedProducts {
  static constexpr u32 kMost = 64;
  EmulatedWarpgroupProduct products[kMost];
  u32 count = 0;
  u32 group = 0;       ///< of the last one
  bool isOpen = false; ///< whether the sums are not received yet

  /// The number of products of groups that the thread has waited for; these come first.
  u32 finished() const {
    u32 done = 0;
    while (done < count && products[done].group < emulatedThread->finishedProducts)
      ++done;
    return done;
  }
};

template <int kTiles> struct WarpgroupSums {
  MmaSums tiles[kTiles];
  MmaSums results[kTiles] = {}; ///< the sums to which the products are added
  EmulatedProducts started = {};
};

/// A lane's input to the start of a product: all lanes must name the same operands. The last lane to arrive reads them,
/// so that checked accesses find data that has not arrived.
struct EmulatedProductStart {
  const EmulatedWarpgroupProduct *product;

  static const char *combine(void *const *lanes) {
    const EmulatedWarpgroupProduct &one = *static_cast<EmulatedProductStart *>(lanes[0])->product;
    for (u32 i = 1; i < kWarpgroupSize; ++i) {
      const EmulatedWarpgroupProduct &other = *static_cast<EmulatedProductStart *>(lanes[i])->product;
      if (!one.hasSameOperands(other))
        return one.left != other.left ? "product of a warpgroup: expected one left operand, got several"
                                      : "product of a warpgroup: expected one right operand, got several";
    }
    for (u32 row = 0; row < one.rightRows(); ++row)
      for (u32 chunk = 0; chunk < one.rightChunks(); ++chunk)
        one.read(one.right, row, chunk);
    for (u32 row = 0; one.left && row < 64; ++row)
      for (u32 chunk = 0; chunk < 2; ++chunk)
        one.read(one.left, row, chunk);
    return nullptr;
  }
};

/// The floats of a chunk of eight elements.
template <class T>
KILN_EMULATED_UNCHECKED inline void emulatedDecodeChunk(const void *chunk, float (&values)[8]) {
  u16 elements[8];
  __builtin_memcpy(elements, chunk, sizeof(elements));
  for (u32 i = 0; i < 8; ++i)
    values[i] = lowToFloat<T>(elements[i]);
}

/// Starts a product whose operands, tiles and group `product` has.
template <int kTiles>
KILN_DEVICE void emulatedStart(WarpgroupSums<kTiles> &sums, EmulatedWarpgroupProduct product, Site site) {
  EmulatedProducts &started = sums.started;
  if (!emulatedThread->areProductsFenced)
    emulatedThread->fail("product of a warpgroup: expected fenceProducts() since the last wait", site);
  if (started.count == EmulatedProducts::kMost)
    emulatedThread->fail("product of a warpgroup: expected at most 64 before a wait that names their sums", site);
  if (!started.isOpen)
    __builtin_memcpy(sums.results, sums.tiles, sizeof(sums.tiles));
  started.isOpen = true;
  for (int i = product.first; i < product.first + product.count; ++i)
    for (float &value : sums.tiles[i].values)
      value = __builtin_nanf("");
  product.group = started.group = emulatedThread->committedProducts;
  started.products[started.count++] = product;
  EmulatedProductStart lane{&product};
  emulatedThread->syncWarpgroup(&lane, EmulatedProductStart::combine, site);
}

template <class T, RightRows kRows, int kCount, int kTiles>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void startProduct(WarpgroupSums<kTiles> &sums, int first, const MmaA &a,
                                                           SharedAddress b, u32 offset, bool adds,
                                                           Site site = Site::current()) {
  static_assert(kCount == 8 || kCount == 2, "64 or 16 columns");
  const char *right = static_cast<const char *>((b + offset).pointer());
  emulatedCheckAligned(right, kChunkBytes, site);
  emulatedStart(sums,
                {a, nullptr, right, first, kCount, kRows == RightRows::Depth, adds, emulatedDecodeChunk<T>, 0,
                 KILN_EMULATED_CALLER},
                site);
}

KILN_DEVICE void commitProducts(Site = Site::current()) { ++emulatedThread->committedProducts; }

/// A lane's input to the computation of the first `count` products of sums. A warp's rows do not depend on other warps.
template <int kTiles> struct EmulatedReceive {
  WarpgroupSums<kTiles> *sums;
  u32 count;

  /// The columns of a tile: the host's compiler adds them at once.
  typedef float Columns __attribute__((vector_size(8 * sizeof(float))));
  /// The operands of a warp: its rows, and all columns.
  struct Operands {
    float a[16][16];
    Columns b[16][kTiles];
  };

  KILN_EMULATED_UNCHECKED static WarpgroupSums<kTiles> &of(void *const *lanes, u32 lane) {
    return *static_cast<EmulatedReceive *>(lanes[lane])->sums;
  }

  KILN_EMULATED_UNCHECKED static void readLeft(void *const *lanes, u32 i, Operands &operands) {
    const EmulatedWarpgroupProduct &one = of(lanes, 0).started.products[i];
    float values[8];
    if (one.left) {
      for (u32 row = 0; row < 16; ++row)
        for (u32 chunk = 0; chunk < 2; ++chunk) {
          one.decode(one.read(one.left, warpIndex() % 4 * 16 + row, chunk), values);
          __builtin_memcpy(&operands.a[row][chunk * 8], values, sizeof(values));
        }
      return;
    }
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
      one.decode(&of(lanes, lane).started.products[i].a, values);
      for (u32 word = 0; word < 4; ++word)
        for (u32 half = 0; half < 2; ++half)
          operands.a[lane / 4 + word % 2 * 8][lane % 4 * 2 + word / 2 * 8 + half] = values[word * 2 + half];
    }
  }

  KILN_EMULATED_UNCHECKED static void readRight(const EmulatedWarpgroupProduct &one, Operands &operands) {
    float values[8];
    for (u32 row = 0; row < one.rightRows(); ++row)
      for (u32 chunk = 0; chunk < one.rightChunks(); ++chunk) {
        one.decode(one.read(one.right, row, chunk), values);
        if (one.rowsAreDepth)
          __builtin_memcpy(&operands.b[row][chunk], values, sizeof(values));
        else
          for (u32 j = 0; j < 8; ++j)
            operands.b[chunk * 8 + j][row / 8][row % 8] = values[j];
      }
  }

  /// Computes product i for every lane.
  KILN_EMULATED_UNCHECKED static void multiply(void *const *lanes, u32 i) {
    const EmulatedWarpgroupProduct &one = of(lanes, 0).started.products[i];
    Operands operands;
    readLeft(lanes, i, operands);
    readRight(one, operands);
    for (u32 row = 0; row < 16; ++row)
      for (int tile = 0; tile < one.count; ++tile) {
        Columns sums = operands.a[row][0] * operands.b[0][tile];
        for (u32 k = 1; k < 16; ++k)
          sums += operands.a[row][k] * operands.b[k][tile];
        for (u32 col = 0; col < 8; ++col) {
          float &sum = of(lanes, row % 8 * 4 + col / 2).results[one.first + tile].values[row / 8 * 2 + col % 2];
          sum = one.adds ? sum + sums[col] : sums[col];
        }
      }
  }

  static const char *combine(void *const *lanes) {
    for (u32 i = 0; i < static_cast<EmulatedReceive *>(lanes[0])->count; ++i)
      multiply(lanes, i);
    return nullptr;
  }
};

/// Computes the products of sums for which the thread has waited.
template <int kTiles> KILN_DEVICE void emulatedFinish(WarpgroupSums<kTiles> &sums, Site site) {
  EmulatedProducts &started = sums.started;
  const u32 done = started.finished();
  if (done == 0)
    return;
  EmulatedReceive<kTiles> lane{&sums, done};
  emulatedThread->syncWarp(kAllLanes, &lane, EmulatedReceive<kTiles>::combine, site);
  started.count -= done;
  __builtin_memmove(started.products, started.products + done, started.count * sizeof(EmulatedWarpgroupProduct));
}
template <int kTiles, int kCount> KILN_DEVICE void emulatedFinish(WarpgroupSums<kTiles> (&sums)[kCount], Site site) {
  for (WarpgroupSums<kTiles> &one : sums)
    emulatedFinish(one, site);
}

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

template <int kTiles, int kCount>
KILN_DEVICE void receive(WarpgroupSums<kTiles> (&sums)[kCount], Site site = Site::current()) {
#pragma unroll
  for (WarpgroupSums<kTiles> &one : sums)
    receive(one, site);
}

} // namespace kiln
