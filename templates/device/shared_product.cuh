//===- shared_product.cuh - matrix products of operands in shared memory --------------===//
//
// As warpgroup.cuh, whose calls go around these: 64 rows by 16 elements of the left operand lie in shared memory as
// well, in rows of 128 bytes of consecutive elements of the depth, permuted and aligned as those of the right operand.
// Only sm_90a has these products; on other GPUs they trap.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/warpgroup.cuh"

namespace kiln {

/// Whether there is an instruction for 8 · kTiles columns here.
template <int kTiles>
inline constexpr bool kIsProductOf = kTiles >= 1 && kTiles <= 32;

#if defined(__CUDACC__)
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Sums of so many columns, as operands and as their names in PTX; and the product of 8 · TILES columns. The operands
// behind the sums are numbers A to TYPE.
#define KILN_SUM(TILE)                                                                                                 \
  "+f"(s[TILE].values[0]), "+f"(s[TILE].values[1]), "+f"(s[TILE].values[2]), "+f"(s[TILE].values[3])
#define KILN_PRODUCT(TILES, COLS, A, B, ADDS, TYPE)                                                                    \
  if constexpr (kTiles == TILES)                                                                                       \
  asm volatile("{.reg .pred adds; setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32.%" #TYPE ".%" #TYPE " {" KILN_NAMES_##COLS           \
               "}, %" #A ", %" #B ", adds, 1, 1, 0, 0;}"                                                               \
               : KILN_SUMS_##COLS                                                                                      \
               : "l"(left), "l"(right), "r"(int(adds)), "C"(PtxElement<T>::kName))
#define KILN_SUMS_8 KILN_SUM(0)
#define KILN_SUMS_16 KILN_SUMS_8, KILN_SUM(1)
#define KILN_SUMS_24 KILN_SUMS_16, KILN_SUM(2)
#define KILN_SUMS_32 KILN_SUMS_24, KILN_SUM(3)
#define KILN_SUMS_40 KILN_SUMS_32, KILN_SUM(4)
#define KILN_SUMS_48 KILN_SUMS_40, KILN_SUM(5)
#define KILN_SUMS_56 KILN_SUMS_48, KILN_SUM(6)
#define KILN_SUMS_64 KILN_SUMS_56, KILN_SUM(7)
#define KILN_SUMS_72 KILN_SUMS_64, KILN_SUM(8)
#define KILN_SUMS_80 KILN_SUMS_72, KILN_SUM(9)
#define KILN_SUMS_88 KILN_SUMS_80, KILN_SUM(10)
#define KILN_SUMS_96 KILN_SUMS_88, KILN_SUM(11)
#define KILN_SUMS_104 KILN_SUMS_96, KILN_SUM(12)
#define KILN_SUMS_112 KILN_SUMS_104, KILN_SUM(13)
#define KILN_SUMS_120 KILN_SUMS_112, KILN_SUM(14)
#define KILN_SUMS_128 KILN_SUMS_120, KILN_SUM(15)
#define KILN_SUMS_136 KILN_SUMS_128, KILN_SUM(16)
#define KILN_SUMS_144 KILN_SUMS_136, KILN_SUM(17)
#define KILN_SUMS_152 KILN_SUMS_144, KILN_SUM(18)
#define KILN_SUMS_160 KILN_SUMS_152, KILN_SUM(19)
#define KILN_SUMS_168 KILN_SUMS_160, KILN_SUM(20)
#define KILN_SUMS_176 KILN_SUMS_168, KILN_SUM(21)
#define KILN_SUMS_184 KILN_SUMS_176, KILN_SUM(22)
#define KILN_SUMS_192 KILN_SUMS_184, KILN_SUM(23)
#define KILN_SUMS_200 KILN_SUMS_192, KILN_SUM(24)
#define KILN_SUMS_208 KILN_SUMS_200, KILN_SUM(25)
#define KILN_SUMS_216 KILN_SUMS_208, KILN_SUM(26)
#define KILN_SUMS_224 KILN_SUMS_216, KILN_SUM(27)
#define KILN_SUMS_232 KILN_SUMS_224, KILN_SUM(28)
#define KILN_SUMS_240 KILN_SUMS_232, KILN_SUM(29)
#define KILN_SUMS_248 KILN_SUMS_240, KILN_SUM(30)
#define KILN_SUMS_256 KILN_SUMS_248, KILN_SUM(31)
#define KILN_NAMES_8 "%0, %1, %2, %3"
#define KILN_NAMES_16 KILN_NAMES_8 ", %4, %5, %6, %7"
#define KILN_NAMES_24 KILN_NAMES_16 ", %8, %9, %10, %11"
#define KILN_NAMES_32 KILN_NAMES_24 ", %12, %13, %14, %15"
#define KILN_NAMES_40 KILN_NAMES_32 ", %16, %17, %18, %19"
#define KILN_NAMES_48 KILN_NAMES_40 ", %20, %21, %22, %23"
#define KILN_NAMES_56 KILN_NAMES_48 ", %24, %25, %26, %27"
#define KILN_NAMES_64 KILN_NAMES_56 ", %28, %29, %30, %31"
#define KILN_NAMES_72 KILN_NAMES_64 ", %32, %33, %34, %35"
#define KILN_NAMES_80 KILN_NAMES_72 ", %36, %37, %38, %39"
#define KILN_NAMES_88 KILN_NAMES_80 ", %40, %41, %42, %43"
#define KILN_NAMES_96 KILN_NAMES_88 ", %44, %45, %46, %47"
#define KILN_NAMES_104 KILN_NAMES_96 ", %48, %49, %50, %51"
#define KILN_NAMES_112 KILN_NAMES_104 ", %52, %53, %54, %55"
#define KILN_NAMES_120 KILN_NAMES_112 ", %56, %57, %58, %59"
#define KILN_NAMES_128 KILN_NAMES_120 ", %60, %61, %62, %63"
#define KILN_NAMES_136 KILN_NAMES_128 ", %64, %65, %66, %67"
#define KILN_NAMES_144 KILN_NAMES_136 ", %68, %69, %70, %71"
#define KILN_NAMES_152 KILN_NAMES_144 ", %72, %73, %74, %75"
#define KILN_NAMES_160 KILN_NAMES_152 ", %76, %77, %78, %79"
#define KILN_NAMES_168 KILN_NAMES_160 ", %80, %81, %82, %83"
#define KILN_NAMES_176 KILN_NAMES_168 ", %84, %85, %86, %87"
#define KILN_NAMES_184 KILN_NAMES_176 ", %88, %89, %90, %91"
#define KILN_NAMES_192 KILN_NAMES_184 ", %92, %93, %94, %95"
#define KILN_NAMES_200 KILN_NAMES_192 ", %96, %97, %98, %99"
#define KILN_NAMES_208 KILN_NAMES_200 ", %100, %101, %102, %103"
#define KILN_NAMES_216 KILN_NAMES_208 ", %104, %105, %106, %107"
#define KILN_NAMES_224 KILN_NAMES_216 ", %108, %109, %110, %111"
#define KILN_NAMES_232 KILN_NAMES_224 ", %112, %113, %114, %115"
#define KILN_NAMES_240 KILN_NAMES_232 ", %116, %117, %118, %119"
#define KILN_NAMES_248 KILN_NAMES_240 ", %120, %121, %122, %123"
#define KILN_NAMES_256 KILN_NAMES_248 ", %124, %125, %126, %127"

/// Where an operand of products lies in shared memory, as instructions take it: in a loop over operands that lie one
/// behind the other, the next one is an addition away.
class SharedOperand {
public:
  KILN_DEVICE explicit SharedOperand(SharedAddress address) : word(u32(warpgroupDescriptor(address))) {}

  /// `bytes` is a multiple of 16.
  KILN_DEVICE friend SharedOperand operator+(SharedOperand operand, u32 bytes) {
    operand.word += bytes / 16;
    return operand;
  }

  /// Only for instructions in this folder.
  KILN_DEVICE u64 descriptor(u64 groupBytes) const {
    return (warpgroupDescriptor(SharedAddress::ofRaw(0), groupBytes) & ~u64(0xffffffff)) | word;
  }

private:
  u32 word; // the low one of the descriptor
};

/// Starts sums += A · B^T, or = A · B^T unless it adds, of 64 rows at `a` and all columns of the sums at `b`; the
/// elements of the depth begin at byte `offset` of the rows of both, before the permutation. Of the 64 rows, `rows`
/// are in memory, at most kMostRows, and of the columns `cols`; the sums of the others are unspecified. If kMostRows is
/// more than 8, the memory of all 64 must be the block's.
template <class T, int kMostRows = 64, int kTiles>
KILN_DEVICE void startSharedProduct(WarpgroupSums<kTiles> &sums, SharedOperand a, SharedOperand b, u32 offset,
                                    bool adds, int = kMostRows, int = 8 * kTiles, Site = Site::current()) {
  static_assert(kIsProductOf<kTiles>, "at most 256 columns");
  static_assert(kMostRows % 8 == 0 && kMostRows <= 64, "groups of 8 rows");
  const u64 left = (a + offset).descriptor(kMostRows == 8 ? 0 : kWarpgroupTileAlignment);
  const u64 right = (b + offset).descriptor(kWarpgroupTileAlignment);
  MmaSums *s = sums.tiles;
  KILN_PRODUCT(1, 8, 4, 5, 6, 7);
  KILN_PRODUCT(2, 16, 8, 9, 10, 11);
  KILN_PRODUCT(3, 24, 12, 13, 14, 15);
  KILN_PRODUCT(4, 32, 16, 17, 18, 19);
  KILN_PRODUCT(5, 40, 20, 21, 22, 23);
  KILN_PRODUCT(6, 48, 24, 25, 26, 27);
  KILN_PRODUCT(7, 56, 28, 29, 30, 31);
  KILN_PRODUCT(8, 64, 32, 33, 34, 35);
  KILN_PRODUCT(9, 72, 36, 37, 38, 39);
  KILN_PRODUCT(10, 80, 40, 41, 42, 43);
  KILN_PRODUCT(11, 88, 44, 45, 46, 47);
  KILN_PRODUCT(12, 96, 48, 49, 50, 51);
  KILN_PRODUCT(13, 104, 52, 53, 54, 55);
  KILN_PRODUCT(14, 112, 56, 57, 58, 59);
  KILN_PRODUCT(15, 120, 60, 61, 62, 63);
  KILN_PRODUCT(16, 128, 64, 65, 66, 67);
  KILN_PRODUCT(17, 136, 68, 69, 70, 71);
  KILN_PRODUCT(18, 144, 72, 73, 74, 75);
  KILN_PRODUCT(19, 152, 76, 77, 78, 79);
  KILN_PRODUCT(20, 160, 80, 81, 82, 83);
  KILN_PRODUCT(21, 168, 84, 85, 86, 87);
  KILN_PRODUCT(22, 176, 88, 89, 90, 91);
  KILN_PRODUCT(23, 184, 92, 93, 94, 95);
  KILN_PRODUCT(24, 192, 96, 97, 98, 99);
  KILN_PRODUCT(25, 200, 100, 101, 102, 103);
  KILN_PRODUCT(26, 208, 104, 105, 106, 107);
  KILN_PRODUCT(27, 216, 108, 109, 110, 111);
  KILN_PRODUCT(28, 224, 112, 113, 114, 115);
  KILN_PRODUCT(29, 232, 116, 117, 118, 119);
  KILN_PRODUCT(30, 240, 120, 121, 122, 123);
  KILN_PRODUCT(31, 248, 124, 125, 126, 127);
  KILN_PRODUCT(32, 256, 128, 129, 130, 131);
}

#undef KILN_SUM
#undef KILN_PRODUCT
#undef KILN_SUMS_8
#undef KILN_SUMS_16
#undef KILN_SUMS_24
#undef KILN_SUMS_32
#undef KILN_SUMS_40
#undef KILN_SUMS_48
#undef KILN_SUMS_56
#undef KILN_SUMS_64
#undef KILN_SUMS_72
#undef KILN_SUMS_80
#undef KILN_SUMS_88
#undef KILN_SUMS_96
#undef KILN_SUMS_104
#undef KILN_SUMS_112
#undef KILN_SUMS_120
#undef KILN_SUMS_128
#undef KILN_SUMS_136
#undef KILN_SUMS_144
#undef KILN_SUMS_152
#undef KILN_SUMS_160
#undef KILN_SUMS_168
#undef KILN_SUMS_176
#undef KILN_SUMS_184
#undef KILN_SUMS_192
#undef KILN_SUMS_200
#undef KILN_SUMS_208
#undef KILN_SUMS_216
#undef KILN_SUMS_224
#undef KILN_SUMS_232
#undef KILN_SUMS_240
#undef KILN_SUMS_248
#undef KILN_SUMS_256
#undef KILN_NAMES_8
#undef KILN_NAMES_16
#undef KILN_NAMES_24
#undef KILN_NAMES_32
#undef KILN_NAMES_40
#undef KILN_NAMES_48
#undef KILN_NAMES_56
#undef KILN_NAMES_64
#undef KILN_NAMES_72
#undef KILN_NAMES_80
#undef KILN_NAMES_88
#undef KILN_NAMES_96
#undef KILN_NAMES_104
#undef KILN_NAMES_112
#undef KILN_NAMES_120
#undef KILN_NAMES_128
#undef KILN_NAMES_136
#undef KILN_NAMES_144
#undef KILN_NAMES_152
#undef KILN_NAMES_160
#undef KILN_NAMES_168
#undef KILN_NAMES_176
#undef KILN_NAMES_184
#undef KILN_NAMES_192
#undef KILN_NAMES_200
#undef KILN_NAMES_208
#undef KILN_NAMES_216
#undef KILN_NAMES_224
#undef KILN_NAMES_232
#undef KILN_NAMES_240
#undef KILN_NAMES_248
#undef KILN_NAMES_256

#else

class SharedOperand {
public:
  KILN_DEVICE explicit SharedOperand(SharedAddress) {}
  KILN_DEVICE friend SharedOperand operator+(SharedOperand operand, u32) { return operand; }
};

template <class T, int kMostRows = 64, int kTiles>
KILN_DEVICE void startSharedProduct(WarpgroupSums<kTiles> &, SharedOperand, SharedOperand, u32, bool, int = kMostRows,
                                    int = 8 * kTiles, Site = Site::current()) {
  static_assert(kIsProductOf<kTiles>, "at most 256 columns");
  asm volatile("trap;");
}

#endif

#else

class SharedOperand {
public:
  KILN_DEVICE explicit SharedOperand(SharedAddress address) : address(address) {}
  KILN_DEVICE friend SharedOperand operator+(SharedOperand operand, u32 bytes) {
    return SharedOperand(operand.address + bytes);
  }

  void *pointer() const { return address.pointer(); }

private:
  SharedAddress address;
};

template <class T, int kMostRows = 64, int kTiles>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void
startSharedProduct(WarpgroupSums<kTiles> &sums, SharedOperand a, SharedOperand b, u32 offset, bool adds,
                   int rows = kMostRows, int cols = 8 * kTiles, Site site = Site::current()) {
  static_assert(kIsProductOf<kTiles>, "at most 256 columns");
  const SharedOperand operands[] = {a, b};
  for (SharedOperand operand : operands)
    if (reinterpret_cast<u64>(operand.pointer()) % kWarpgroupTileAlignment != 0)
      emulatedThread->fail("product of a warpgroup: expected operands at a multiple of kWarpgroupTileAlignment", site);
  if (offset % 32 != 0 || offset >= kSwizzledRowBytes)
    emulatedThread->fail("product of a warpgroup: expected 16 elements of the depth at a multiple of 32 bytes", site);
  emulatedStart(sums,
                {.left = static_cast<const char *>((a + offset).pointer()),
                 .leftRows = u32(rows),
                 .right = static_cast<const char *>((b + offset).pointer()),
                 .rightCols = u32(cols),
                 .first = 0,
                 .count = kTiles,
                 .rowsAreDepth = false,
                 .adds = adds,
                 .decode = emulatedDecodeChunk<T>,
                 .code = KILN_EMULATED_CALLER},
                site);
}

#endif

/// The same, by addresses.
template <class T, int kMostRows = 64, int kTiles>
KILN_DEVICE void startSharedProduct(WarpgroupSums<kTiles> &sums, SharedAddress a, SharedAddress b, u32 offset,
                                    bool adds, int rows = kMostRows, int cols = 8 * kTiles,
                                    Site site = Site::current()) {
  startSharedProduct<T, kMostRows>(sums, SharedOperand(a), SharedOperand(b), offset, adds, rows, cols, site);
}

} // namespace kiln
