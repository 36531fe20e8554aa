//===- philox.cuh - counter-based random numbers ------------------------------===//
//
// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011), with the same words as
// support/Random.h. It uses only integers, so one implementation serves both the GPU and the CPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Four random words.
struct PhiloxWords {
  u32 words[4];
};

/// The words for a 128-bit counter (`low` is its less significant half) and a key.
KILN_DEVICE constexpr PhiloxWords philox(u64 low, u64 high, u64 key) {
  u32 c0 = u32(low), c1 = u32(low >> 32), c2 = u32(high), c3 = u32(high >> 32);
  u32 key0 = u32(key), key1 = u32(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 product0 = u64(0xD2511F53u) * c0, product1 = u64(0xCD9E8D57u) * c2;
    c0 = u32(product1 >> 32) ^ c1 ^ key0;
    c1 = u32(product1);
    c2 = u32(product0 >> 32) ^ c3 ^ key1;
    c3 = u32(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

} // namespace kiln
