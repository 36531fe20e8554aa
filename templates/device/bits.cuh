//===- bits.cuh - counting bits of a word ---------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// The number of set bits, and the index of the lowest set bit of a word that is not 0.
KILN_DEVICE u32 bitCount(u32 word) { return u32(__popc(int(word))); }
KILN_DEVICE u32 firstBit(u32 word) { return u32(__ffs(int(word)) - 1); }
/// The number of clear bits above the highest set bit of a word that is not 0.
KILN_DEVICE u32 leadingZeros(u64 word) { return u32(__clzll(i64(word))); }

#else

KILN_DEVICE u32 bitCount(u32 word) { return u32(__builtin_popcount(word)); }
KILN_DEVICE u32 firstBit(u32 word) { return u32(__builtin_ctz(word)); }
KILN_DEVICE u32 leadingZeros(u64 word) { return u32(__builtin_clzll(word)); }

#endif

} // namespace kiln
