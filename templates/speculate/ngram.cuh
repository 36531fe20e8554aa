//===- ngram.cuh - guessing that a text goes on as it did before ---------------===//
//
// Takes the longest ending of a row's text that has occurred in it before, up to kLongest tokens, and guesses that it
// goes on as it did then; of several such places, as at the last one. (Prompt lookup; Saxena 2023.) The same guesses as
// NgramDraft's on the host. A text in which the last token has not occurred before is guessed to repeat that token.
//
// Method: a block for each row. Each thread compares the text's ending with what is before every kThreads-th place.
//
// Launch: grid (B), block kThreads.
//
// Memory: tokens[B], positions[B] and text[B][kContext] as of SequenceState. Results: guesses[B][kTokens], the row's
// last token and kTokens - 1 guesses; starts[B], the position of the first of these.
//
// Config:
//   kContext     the most positions of a row
//   kTokens      as of speculate/accept.cuh
//   kThreads     a multiple of 32
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "speculate/places.cuh"

namespace kiln {

/// The most tokens of an ending.
constexpr int kLongest = 8;

/// How many tokens before text[end] are those before text[size].
KILN_DEVICE int commonEnding(const i32 *text, int end, int size) {
  int length = 0;
  while (length < min(end, kLongest) && text[end - 1 - length] == text[size - 1 - length])
    ++length;
  return length;
}

template <class Config> struct NgramStorage {
  BlockScratch<u64> scratch;
};
template <class Config> constexpr SharedBytes kNgramShared = {sizeof(NgramStorage<Config>), 0};

/// The kernel's body.
template <class Config>
KILN_DEVICE void guessByNgram(const i32 *tokens, const i32 *positions, const i32 *text, i32 *guesses, i32 *starts) {
  auto &shared = sharedStorage<NgramStorage<Config>>();
  const u32 b = blockIndexX();
  const int size = positions[b] + 1;
  text += i64(b) * Config::kContext;
  u64 best = 0; // the length of an ending and the place behind it
  for (int end = size - 1 - int(threadIndex()); end > 0; end -= Config::kThreads)
    best = max(best, u64(commonEnding(text, end, size)) << 32 | u32(end));
  best = blockReduce<Max>(best, u64(0), shared.scratch, Site::current());
  const int end = best >> 32 != 0 ? int(u32(best)) : size - 1;
  // The text may end before all guesses are found: it then goes on with the guesses themselves.
  guesses += b * Config::kTokens;
  for (int i = int(threadIndex()); i < Config::kTokens; i += Config::kThreads)
    guesses[i] = i == 0 ? tokens[b] : text[end + (i - 1) % (size - end)];
  if (threadIndex() == 0)
    starts[b] = passPosition<Config>(positions[b]);
}

} // namespace kiln
