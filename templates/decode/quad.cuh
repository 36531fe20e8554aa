//===- quad.cuh - what four neighbouring lanes of a warp do together -------------------===//
#pragma once

#include "device/base.cuh"
#include "device/warp.cuh"

namespace kiln {

/// Word j of lane i becomes word i of lane j, for the four lanes of each quad; `lane` is this one. All lanes of the
/// warp call this.
KILN_DEVICE void transposeQuad(u32 (&words)[4], int lane) {
#pragma unroll
  for (u32 bit = 1; bit < 4; bit *= 2) {
    const bool isUpper = u32(lane) & bit;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (i & bit)
        continue;
      const u32 other = shuffleXor(isUpper ? words[i] : words[i | bit], bit);
      words[i] = isUpper ? other : words[i];
      words[i | bit] = isUpper ? words[i | bit] : other;
    }
  }
}

/// The words of the four lanes of the quad, for all of them. All lanes of the warp call this.
KILN_DEVICE void gatherQuad(u32 (&words)[4], u32 own, int lane) {
  const u32 first = u32(lane) & ~3u;
#pragma unroll
  for (u32 i = 0; i < 4; ++i)
    words[i] = shuffle(own, first + i);
}

} // namespace kiln
