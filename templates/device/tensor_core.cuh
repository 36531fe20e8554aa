//===- tensor_core.cuh - matrix loads and products of a warp --------------------===//
//
// ldmatrix and mma.sync of sm_80 and up. Every lane of the warp must call them at the same place. The table shows the
// layout of small matrices in the registers of a warp (lane = 4 · group + place, group 0..7, place 0..3; PTX ISA,
// "Matrix fragments for mma.m16n8k16"), in words of two 16-bit elements or one tf32 element:
//
//   8 rows × 4 words     a lane holds word `place` of row `group`
//   A, 16 rows × 8       0: rows 0-7, words 0-3      1: rows 8-15, words 0-3
//                        2: rows 0-7, words 4-7      3: rows 8-15, words 4-7
//   B^T, 8 cols × 8      0: words 0-3 of column `group`      1: words 4-7 of it
//   sums, 16 × 8         0, 1: columns 2 · place and the next, of row `group`
//                        2, 3: the same columns of row group + 8
//
// The depth is 8 words: 16 elements of 16 bits, or 8 of tf32. Sums are floats. Their rounding is unspecified. But on
// Hopper it is one for 16 elements of 16 bits, whichever instruction multiplies them, this one or wgmma, and in
// whichever order the 16 are (WgmmaRowsCompany.HasTheBitsOfWarps on a GPU). The emulator adds 16 products of such
// elements in float, and those of tf32 in double, and then adds the result to the sum.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"

namespace kiln {

/// A lane's part of the operands of a product.
struct MmaA {
  u32 words[4];
};
struct MmaB {
  u32 words[2];
};
struct MmaSums {
  float values[4];
};

/// Rounds words of T to the precision that products use, to nearest with ties away from zero: floats to the 11 bits of
/// tf32. A NaN stays as it is. Products do not use the last 13 bits: a NaN of these alone, which no GPU makes, is
/// infinity to them, as it is to ptxas' code for cvt.rna.tf32.f32.
template <class T> KILN_DEVICE void roundFactors(u32 (&words)[4]) {
  if constexpr (sizeof(T) == 4)
#pragma unroll
    for (u32 &word : words)
      // Half of the last place; a carry into the exponent is correct. Of a NaN, it would make a zero.
      if ((word & 0x7fffffff) <= 0x7f800000)
        word += 0x1000;
}

#if defined(__CUDACC__)

/// Loads four matrices of 8 rows of 16 bytes: lane i gives the address of row i % 8 of matrix i / 8, a multiple of 16,
/// and gets word i % 4 of row i / 4 of each matrix.
KILN_DEVICE void loadMatrices(u32 (&words)[4], SharedAddress row, Site = Site::current()) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row.raw())
               : "memory");
}

/// Like loadMatrices for matrices of 16-bit elements, transposed: lane i gets elements i / 4 of rows 2 · (i % 4) and
/// the next, the first in the lower half.
KILN_DEVICE void loadMatricesTransposed(u32 (&words)[4], SharedAddress row, Site = Site::current()) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row.raw())
               : "memory");
}

/// sums += A · B for elements of type T: bf16, f16, or float, of which the product uses the upper 19 bits (tf32). All
/// lanes of the warp take part: so it is volatile, or the compiler might give a copy of it to each side of a branch.
template <class T>
KILN_DEVICE void multiplyAdd(MmaSums &sums, const MmaA &a, const MmaB &b, Site = Site::current());

template <> KILN_DEVICE void multiplyAdd<bf16>(MmaSums &sums, const MmaA &a, const MmaB &b, Site) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]), "r"(b.words[1]));
}
template <> KILN_DEVICE void multiplyAdd<f16>(MmaSums &sums, const MmaA &a, const MmaB &b, Site) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]), "r"(b.words[1]));
}
template <> KILN_DEVICE void multiplyAdd<float>(MmaSums &sums, const MmaA &a, const MmaB &b, Site) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]), "r"(b.words[1]));
}

#else

/// A lane's input to a matrix load, the address of a row, and the lane's result.
struct EmulatedMatrixLoad {
  const void *row;
  u32 words[4];

  static EmulatedMatrixLoad &of(void *const *lanes, u32 lane) {
    return *static_cast<EmulatedMatrixLoad *>(lanes[lane]);
  }
  static const char *plain(void *const *lanes) {
    for (u32 matrix = 0; matrix < 4; ++matrix)
      for (u32 lane = 0; lane < kWarpSize; ++lane)
        __builtin_memcpy(&of(lanes, lane).words[matrix],
                         static_cast<const u32 *>(of(lanes, 8 * matrix + lane / 4).row) + lane % 4, 4);
    return nullptr;
  }
  static const char *transposed(void *const *lanes) {
    for (u32 matrix = 0; matrix < 4; ++matrix)
      for (u32 lane = 0; lane < kWarpSize; ++lane)
        for (u32 half = 0; half < 2; ++half) {
          const u32 row = 8 * matrix + lane % 4 * 2 + half;
          u16 element;
          __builtin_memcpy(&element, static_cast<const u16 *>(of(lanes, row).row) + lane / 4, 2);
          u32 &word = of(lanes, lane).words[matrix];
          word = half ? word | static_cast<u32>(element) << 16 : element;
        }
    return nullptr;
  }
};

template <class Load>
KILN_DEVICE void emulatedLoadMatrices(u32 (&words)[4], SharedAddress row, Load combine, Site site) {
  emulatedCheckAligned(row.pointer(), 16, site);
  EmulatedMatrixLoad lane{row.pointer(), {}};
  emulatedThread->syncWarp(kAllLanes, &lane, combine, site);
  __builtin_memcpy(words, lane.words, sizeof(words));
}

KILN_DEVICE void loadMatrices(u32 (&words)[4], SharedAddress row, Site site = Site::current()) {
  emulatedLoadMatrices(words, row, EmulatedMatrixLoad::plain, site);
}
KILN_DEVICE void loadMatricesTransposed(u32 (&words)[4], SharedAddress row, Site site = Site::current()) {
  emulatedLoadMatrices(words, row, EmulatedMatrixLoad::transposed, site);
}

/// The number of elements in a word of an operand.
template <class T> constexpr u32 kWordElements = 4 / sizeof(T);
template <class T> KILN_DEVICE float emulatedElement(u32 word, u32 i) {
  return i == 0 ? lowToFloat<T>(word) : highToFloat<T>(word);
}
template <> KILN_DEVICE float emulatedElement<float>(u32 word, u32) { return bitCast<float>(word & 0xffffe000u); }

/// The type in which the products of an instruction are added.
template <class T> struct EmulatedSumOf {
  using Type = float;
};
template <> struct EmulatedSumOf<float> {
  using Type = double;
};
template <class T> using EmulatedSum = typename EmulatedSumOf<T>::Type;

/// A lane's input to a product.
template <class T> struct EmulatedProduct {
  MmaSums *sums;
  const MmaA *a;
  const MmaB *b;

  static const char *combine(void *const *lanes) {
    constexpr u32 kPerWord = kWordElements<T>, kDepth = 8 * kPerWord;
    float a[16][kDepth], b[kDepth][8];
    for (u32 lane = 0; lane < kWarpSize; ++lane) {
      const auto &own = *static_cast<const EmulatedProduct *>(lanes[lane]);
      const u32 group = lane / 4, place = lane % 4;
      for (u32 i = 0; i < kPerWord; ++i) {
        for (u32 word = 0; word < 4; ++word)
          a[group + word % 2 * 8][(place + word / 2 * 4) * kPerWord + i] = emulatedElement<T>(own.a->words[word], i);
        for (u32 word = 0; word < 2; ++word)
          b[(place + word * 4) * kPerWord + i][group] = emulatedElement<T>(own.b->words[word], i);
      }
    }
    for (u32 row = 0; row < 16; ++row) {
      EmulatedSum<T> sums[8] = {};
      for (u32 k = 0; k < kDepth; ++k)
        for (u32 col = 0; col < 8; ++col)
          sums[col] += static_cast<EmulatedSum<T>>(a[row][k]) * b[k][col];
      for (u32 col = 0; col < 8; ++col) {
        float &sum = static_cast<EmulatedProduct *>(lanes[row % 8 * 4 + col / 2])->sums->values[row / 8 * 2 + col % 2];
        sum = static_cast<float>(sum + sums[col]);
      }
    }
    return nullptr;
  }
};

template <class T>
KILN_DEVICE void multiplyAdd(MmaSums &sums, const MmaA &a, const MmaB &b, Site site = Site::current()) {
  EmulatedProduct<T> lane{&sums, &a, &b};
  emulatedThread->syncWarp(kAllLanes, &lane, EmulatedProduct<T>::combine, site);
}

#endif

} // namespace kiln
