//===- noise.cuh - the noise that draws a token -------------------------------===//
//
// The token with the largest sum of log-probability and noise is distributed as the probabilities, if the noise of
// every token is an independent variable of the standard Gumbel distribution, -ln(-ln u) for u uniform in (0, 1)
// (Gumbel 1954; Maddison et al., A* Sampling, NIPS 2014). Here a token's noise is a function of seed, sequence,
// position and id alone. So whoever knows the logits knows the choice, and two models that agree about the
// probabilities mostly agree about the token (Daliri et al., Coupling without Communication and Drafter-Invariant
// Speculative Decoding, 2024).
//
// All arithmetic is in integers, the same on host and device. Logarithms are to base 2, because exponents of
// sample/choice.cuh are: the noise is -log2(-log2 u), which is Gumbel's variable over ln 2 and a constant that all
// tokens share.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/bits.cuh"
#include "device/philox.cuh"

namespace kiln {

/// What the noise of all tokens of one draw follows from.
struct NoiseKey {
  u64 seed;
  u64 sequence;
  u64 position; ///< tokens of the sequence before the drawn one, modulo 2^32
};

/// Ids share a block of random words if they differ by 32, 64 or 96 and lie in the same 128: so a warp that reads 128
/// logits, 32 side by side at a time, needs one block for each lane.
constexpr int kNoiseIds = 128;
KILN_DEVICE constexpr u32 noiseBlock(u32 id) { return id / kNoiseIds * 32 + id % 32; }
KILN_DEVICE constexpr u32 noiseWord(u32 id) { return id / 32 % 4; }

/// The words of a block. `isTail` gives a second, independent block.
KILN_DEVICE constexpr PhiloxWords noiseWords(const NoiseKey &key, u32 block, bool isTail = false) {
  return philox(u64(block | u32(isTail) << 31) << 32 | u32(key.position), key.sequence, key.seed);
}

/// c[0] - x (c[1] - x (c[2] - ...)), for x in units of 2^-32.
template <int N> KILN_DEVICE constexpr u32 alternatingSeries(const u32 (&c)[N], u32 x) {
  u32 value = c[N - 1];
  for (int i = N - 2; i >= 0; --i)
    value = c[i] - u32(u64(value) * x >> 32);
  return value;
}

/// -log2(x / 2^64) in units of 2^-31, for x > 0. log2(1 + f) is f times a polynomial of degree 9 through Chebyshev
/// nodes; the error is at most 2^-26.
KILN_DEVICE u64 minusLog2(u64 x) {
  constexpr u32 coefficients[] = {0xb8aa3b19u, 0x5c551097u, 0x3d8c5d47u, 0x2e13af4bu, 0x244fa966u,
                                  0x1c329e22u, 0x13786ac6u, 0x0a6904eau, 0x039bdba3u, 0x0096254au};
  const u32 zeros = leadingZeros(x);
  const u32 fraction = u32(x << zeros << 1 >> 32); // of 1 + f
  const u32 log = u32(u64(alternatingSeries(coefficients, fraction)) * fraction >> 32);
  return (u64(zeros + 1) << 31) - log;
}

/// The bounds of gumbelNoise.
constexpr i32 kLeastNoise = -(6 << 24), kMostNoise = 65 << 24;

/// -log2(-log2(1 - v)) in units of 2^-24, for v = x / 2^64 > 0; the error is less than one unit.
KILN_DEVICE i32 gumbelNoise(u64 x) {
  // -log2(1 - v) loses its digits as v approaches 0. There, -log2(1 - v) = v q(v) with a smooth q, whose logarithm is a
  // polynomial in 1 - 2v of degree 8 through Chebyshev nodes; the error is at most 2^-26.
  constexpr u32 coefficients[] = {0x7fffffe0u, 0x51bffce4u, 0x215a8566u, 0x13d0ed7eu, 0x0d598b0au,
                                  0x08cd0818u, 0x04cb42b6u, 0x01c0b811u, 0x004df56bu};
  const bool isUpper = x >> 63 == 0; // v < 1/2: the noise is above 0
  const u64 log = minusLog2(isUpper ? x : 0 - x);
  const i64 noise = isUpper ? i64(log) - i64(alternatingSeries(coefficients, ~u32(x >> 31)))
                            : i64(minusLog2(log)) - (i64(33) << 31); // log is in units of 2^-31, not of 2^-64
  return i32((noise + 64) >> 7);
}

/// The noise of a token whose random word is given. A small word gives a large noise, and few words are that small;
/// words below 2^12 therefore get 32 more bits. So the noise has the probability that it should to within 2^-13 of it,
/// and down to 2^-64.
KILN_DEVICE i32 tokenNoise(const NoiseKey &key, u32 id, u32 word) {
  const u32 more =
      word >> 12 == 0 ? noiseWords(key, noiseBlock(id), /*isTail=*/true).words[noiseWord(id)] : 0x80000000u;
  return gumbelNoise(u64(word) << 32 | more | 1);
}
KILN_DEVICE i32 tokenNoise(const NoiseKey &key, u32 id) {
  return tokenNoise(key, id, noiseWords(key, noiseBlock(id)).words[noiseWord(id)]);
}

/// No noise of this word is larger.
KILN_DEVICE i32 noiseBound(u32 word) { return i32((word == 0 ? 66 : leadingZeros(word) - 31) << 24); }

} // namespace kiln
