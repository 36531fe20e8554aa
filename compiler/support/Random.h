//===- Random.h - counter-based random numbers ------------------------------===//
//
// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011): a block of four words depends
// only on a counter and a key. So any part of a sequence can be computed independently, on any thread or device, and a
// result never depends on how many numbers were drawn elsewhere.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <array>

namespace kiln {

using PhiloxBlock = std::array<uint32_t, 4>;

/// The block for a 128-bit counter (least significant word first) and a 64-bit key.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, uint64_t key) {
  constexpr uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = multiplier0 * counter[0];
    uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += weyl0;
    key1 += weyl1;
  }
  return counter;
}

/// A number in [0, 1), uniform: a multiple of 2^-53.
constexpr double uniformDouble(uint32_t high, uint32_t low) {
  return static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

/// A number in [0, 1), uniform: a multiple of 2^-24.
constexpr float uniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// The p-quantile of the standard normal distribution, 0 < p < 1, to about 16 digits (Wichura 1988, AS 241).
double normalQuantile(double p);

/// A standard normal number: one of 2^32 values that lie symmetrically around 0, the largest 6.3.
inline float normalFloat(uint32_t word) { return static_cast<float>(normalQuantile((word + 0.5) * 0x1p-32)); }

/// Computes normalFloat of each word, several at a time.
void normalFloats(ArrayRef<uint32_t> words, MutableArrayRef<float> values);

/// A standard normal number: one of 2^52 values, the largest 8.2.
inline double normalDouble(uint32_t high, uint32_t low) {
  // With 52 bits, adding one half is exact; it keeps p away from 0 and 1.
  uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 12;
  return normalQuantile((static_cast<double>(bits) + 0.5) * 0x1p-52);
}

} // namespace kiln
