//===- pretend.cuh - guesses that are right with a known probability -----------===//
//
// To measure what speculation would give with real weights: `kiln bench --what speculation` knows the text that the
// model will write, and replaces guesses, which have cost what they cost, by its tokens or by wrong ones.
//
// Launch: grid (B), block 32.
//
// Memory: positions[B] as of SequenceState; known[B][kContext], the text that is to come, by position; odds[B][2], the
// probability of a right guess in units of 2^-31 and a seed. guesses[B][kTokens] are replaced, but for the first.
//
// Config:
//   kVocabulary, kContext, kTokens  as of speculate/accept.cuh
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/index.cuh"
#include "device/math.cuh"
#include "device/philox.cuh"

namespace kiln {

/// The kernel's body. A guess is right or wrong by a hash of seed, row, position and place. Token 0 is taken for a
/// place without a guess, which stays so.
template <class Config>
KILN_DEVICE void pretendGuesses(const i32 *positions, const i32 *known, const i32 *odds, i32 *guesses) {
  const u32 b = blockIndexX();
  guesses += b * Config::kTokens;
  for (int i = 1 + int(threadIndex()); i < Config::kTokens; i += int(blockThreads())) {
    const int position = positions[b] + i;
    const i32 right = known[i64(b) * Config::kContext + min(position, Config::kContext - 1)];
    const u32 hash = philox(u64(i) << 32 | u32(position), b, /*key=*/u32(odds[2 * b + 1])).words[0];
    if (guesses[i] != 0)
      guesses[i] = i32(hash >> 1) < odds[2 * b] ? right : (right + 1) % Config::kVocabulary;
  }
}

} // namespace kiln
