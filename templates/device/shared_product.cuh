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

#define KILN_SUMS(TILE)                                                                                                \
  "+f"(s[TILE].values[0]), "+f"(s[TILE].values[1]), "+f"(s[TILE].values[2]), "+f"(s[TILE].values[3])
#define KILN_SUMS_16(TILE) KILN_SUMS(TILE), KILN_SUMS(TILE + 1)
#define KILN_SUMS_32(TILE) KILN_SUMS_16(TILE), KILN_SUMS_16(TILE + 2)
#define KILN_PRODUCT(COLS, REGISTERS, A, B, ADDS, TYPE, ...)                                                           \
  asm volatile("{.reg .pred adds; setp.ne.b32 adds, %" ADDS ", 0;\n"                                                   \
               "wgmma.mma_async.sync.aligned.m64n" COLS "k16.f32.%" TYPE ".%" TYPE " {" REGISTERS "}, %" A ", %" B     \
               ", adds, 1, 1, 0, 0;}"                                                                                  \
               : __VA_ARGS__                                                                                           \
               : "l"(left), "l"(right), "r"(int(adds)), "C"(PtxElement<T>::kName))
#define KILN_REGISTERS_8 "%0, %1, %2, %3"
#define KILN_REGISTERS_16 KILN_REGISTERS_8 ", %4, %5, %6, %7"
#define KILN_REGISTERS_24 KILN_REGISTERS_16 ", %8, %9, %10, %11"
#define KILN_REGISTERS_32 KILN_REGISTERS_24 ", %12, %13, %14, %15"
#define KILN_REGISTERS_40 KILN_REGISTERS_32 ", %16, %17, %18, %19"
#define KILN_REGISTERS_48 KILN_REGISTERS_40 ", %20, %21, %22, %23"
#define KILN_REGISTERS_56 KILN_REGISTERS_48 ", %24, %25, %26, %27"
#define KILN_REGISTERS_64 KILN_REGISTERS_56 ", %28, %29, %30, %31"
#define KILN_REGISTERS_72 KILN_REGISTERS_64 ", %32, %33, %34, %35"
#define KILN_REGISTERS_80 KILN_REGISTERS_72 ", %36, %37, %38, %39"
#define KILN_REGISTERS_88 KILN_REGISTERS_80 ", %40, %41, %42, %43"
#define KILN_REGISTERS_96 KILN_REGISTERS_88 ", %44, %45, %46, %47"
#define KILN_REGISTERS_104 KILN_REGISTERS_96 ", %48, %49, %50, %51"
#define KILN_REGISTERS_112 KILN_REGISTERS_104 ", %52, %53, %54, %55"
#define KILN_REGISTERS_120 KILN_REGISTERS_112 ", %56, %57, %58, %59"
#define KILN_REGISTERS_128 KILN_REGISTERS_120 ", %60, %61, %62, %63"
#define KILN_REGISTERS_136 KILN_REGISTERS_128 ", %64, %65, %66, %67"
#define KILN_REGISTERS_144 KILN_REGISTERS_136 ", %68, %69, %70, %71"
#define KILN_REGISTERS_152 KILN_REGISTERS_144 ", %72, %73, %74, %75"
#define KILN_REGISTERS_160 KILN_REGISTERS_152 ", %76, %77, %78, %79"
#define KILN_REGISTERS_168 KILN_REGISTERS_160 ", %80, %81, %82, %83"
#define KILN_REGISTERS_176 KILN_REGISTERS_168 ", %84, %85, %86, %87"
#define KILN_REGISTERS_184 KILN_REGISTERS_176 ", %88, %89, %90, %91"
#define KILN_REGISTERS_192 KILN_REGISTERS_184 ", %92, %93, %94, %95"
#define KILN_REGISTERS_200 KILN_REGISTERS_192 ", %96, %97, %98, %99"
#define KILN_REGISTERS_208 KILN_REGISTERS_200 ", %100, %101, %102, %103"
#define KILN_REGISTERS_216 KILN_REGISTERS_208 ", %104, %105, %106, %107"
#define KILN_REGISTERS_224 KILN_REGISTERS_216 ", %108, %109, %110, %111"
#define KILN_REGISTERS_232 KILN_REGISTERS_224 ", %112, %113, %114, %115"
#define KILN_REGISTERS_240 KILN_REGISTERS_232 ", %116, %117, %118, %119"
#define KILN_REGISTERS_248 KILN_REGISTERS_240 ", %120, %121, %122, %123"
#define KILN_REGISTERS_256 KILN_REGISTERS_248 ", %124, %125, %126, %127"

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
  if constexpr (kTiles == 1)
    KILN_PRODUCT("8", KILN_REGISTERS_8, "4", "5", "6", "7", KILN_SUMS(0));
  else if constexpr (kTiles == 2)
    KILN_PRODUCT("16", KILN_REGISTERS_16, "8", "9", "10", "11", KILN_SUMS_16(0));
  else if constexpr (kTiles == 3)
    KILN_PRODUCT("24", KILN_REGISTERS_24, "12", "13", "14", "15", KILN_SUMS_16(0), KILN_SUMS(2));
  else if constexpr (kTiles == 4)
    KILN_PRODUCT("32", KILN_REGISTERS_32, "16", "17", "18", "19", KILN_SUMS_32(0));
  else if constexpr (kTiles == 5)
    KILN_PRODUCT("40", KILN_REGISTERS_40, "20", "21", "22", "23", KILN_SUMS_32(0), KILN_SUMS(4));
  else if constexpr (kTiles == 6)
    KILN_PRODUCT("48", KILN_REGISTERS_48, "24", "25", "26", "27", KILN_SUMS_32(0), KILN_SUMS_16(4));
  else if constexpr (kTiles == 7)
    KILN_PRODUCT("56", KILN_REGISTERS_56, "28", "29", "30", "31", KILN_SUMS_32(0), KILN_SUMS_16(4), KILN_SUMS(6));
  else if constexpr (kTiles == 8)
    KILN_PRODUCT("64", KILN_REGISTERS_64, "32", "33", "34", "35", KILN_SUMS_32(0), KILN_SUMS_32(4));
  else if constexpr (kTiles == 9)
    KILN_PRODUCT("72", KILN_REGISTERS_72, "36", "37", "38", "39", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS(8));
  else if constexpr (kTiles == 10)
    KILN_PRODUCT("80", KILN_REGISTERS_80, "40", "41", "42", "43", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_16(8));
  else if constexpr (kTiles == 11)
    KILN_PRODUCT("88", KILN_REGISTERS_88, "44", "45", "46", "47", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_16(8),
                 KILN_SUMS(10));
  else if constexpr (kTiles == 12)
    KILN_PRODUCT("96", KILN_REGISTERS_96, "48", "49", "50", "51", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8));
  else if constexpr (kTiles == 13)
    KILN_PRODUCT("104", KILN_REGISTERS_104, "52", "53", "54", "55", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS(12));
  else if constexpr (kTiles == 14)
    KILN_PRODUCT("112", KILN_REGISTERS_112, "56", "57", "58", "59", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_16(12));
  else if constexpr (kTiles == 15)
    KILN_PRODUCT("120", KILN_REGISTERS_120, "60", "61", "62", "63", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_16(12), KILN_SUMS(14));
  else if constexpr (kTiles == 16)
    KILN_PRODUCT("128", KILN_REGISTERS_128, "64", "65", "66", "67", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12));
  else if constexpr (kTiles == 17)
    KILN_PRODUCT("136", KILN_REGISTERS_136, "68", "69", "70", "71", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS(16));
  else if constexpr (kTiles == 18)
    KILN_PRODUCT("144", KILN_REGISTERS_144, "72", "73", "74", "75", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_16(16));
  else if constexpr (kTiles == 19)
    KILN_PRODUCT("152", KILN_REGISTERS_152, "76", "77", "78", "79", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_16(16), KILN_SUMS(18));
  else if constexpr (kTiles == 20)
    KILN_PRODUCT("160", KILN_REGISTERS_160, "80", "81", "82", "83", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_32(16));
  else if constexpr (kTiles == 21)
    KILN_PRODUCT("168", KILN_REGISTERS_168, "84", "85", "86", "87", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS(20));
  else if constexpr (kTiles == 22)
    KILN_PRODUCT("176", KILN_REGISTERS_176, "88", "89", "90", "91", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_16(20));
  else if constexpr (kTiles == 23)
    KILN_PRODUCT("184", KILN_REGISTERS_184, "92", "93", "94", "95", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_16(20), KILN_SUMS(22));
  else if constexpr (kTiles == 24)
    KILN_PRODUCT("192", KILN_REGISTERS_192, "96", "97", "98", "99", KILN_SUMS_32(0), KILN_SUMS_32(4), KILN_SUMS_32(8),
                 KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20));
  else if constexpr (kTiles == 25)
    KILN_PRODUCT("200", KILN_REGISTERS_200, "100", "101", "102", "103", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS(24));
  else if constexpr (kTiles == 26)
    KILN_PRODUCT("208", KILN_REGISTERS_208, "104", "105", "106", "107", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_16(24));
  else if constexpr (kTiles == 27)
    KILN_PRODUCT("216", KILN_REGISTERS_216, "108", "109", "110", "111", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_16(24),
                 KILN_SUMS(26));
  else if constexpr (kTiles == 28)
    KILN_PRODUCT("224", KILN_REGISTERS_224, "112", "113", "114", "115", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_32(24));
  else if constexpr (kTiles == 29)
    KILN_PRODUCT("232", KILN_REGISTERS_232, "116", "117", "118", "119", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_32(24),
                 KILN_SUMS(28));
  else if constexpr (kTiles == 30)
    KILN_PRODUCT("240", KILN_REGISTERS_240, "120", "121", "122", "123", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_32(24),
                 KILN_SUMS_16(28));
  else if constexpr (kTiles == 31)
    KILN_PRODUCT("248", KILN_REGISTERS_248, "124", "125", "126", "127", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_32(24),
                 KILN_SUMS_16(28), KILN_SUMS(30));
  else if constexpr (kTiles == 32)
    KILN_PRODUCT("256", KILN_REGISTERS_256, "128", "129", "130", "131", KILN_SUMS_32(0), KILN_SUMS_32(4),
                 KILN_SUMS_32(8), KILN_SUMS_32(12), KILN_SUMS_32(16), KILN_SUMS_32(20), KILN_SUMS_32(24),
                 KILN_SUMS_32(28));
}

#undef KILN_SUMS
#undef KILN_SUMS_16
#undef KILN_SUMS_32
#undef KILN_PRODUCT
#undef KILN_REGISTERS_8
#undef KILN_REGISTERS_16
#undef KILN_REGISTERS_24
#undef KILN_REGISTERS_32
#undef KILN_REGISTERS_40
#undef KILN_REGISTERS_48
#undef KILN_REGISTERS_56
#undef KILN_REGISTERS_64
#undef KILN_REGISTERS_72
#undef KILN_REGISTERS_80
#undef KILN_REGISTERS_88
#undef KILN_REGISTERS_96
#undef KILN_REGISTERS_104
#undef KILN_REGISTERS_112
#undef KILN_REGISTERS_120
#undef KILN_REGISTERS_128
#undef KILN_REGISTERS_136
#undef KILN_REGISTERS_144
#undef KILN_REGISTERS_152
#undef KILN_REGISTERS_160
#undef KILN_REGISTERS_168
#undef KILN_REGISTERS_176
#undef KILN_REGISTERS_184
#undef KILN_REGISTERS_192
#undef KILN_REGISTERS_200
#undef KILN_REGISTERS_208
#undef KILN_REGISTERS_216
#undef KILN_REGISTERS_224
#undef KILN_REGISTERS_232
#undef KILN_REGISTERS_240
#undef KILN_REGISTERS_248
#undef KILN_REGISTERS_256

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
