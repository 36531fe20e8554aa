//===- sequence.cuh - what the device keeps of each row ------------------------===//
//
// A chosen token becomes the row's next input, and its position advances; a row that reaches a stop token, its length
// or the end of the context is finished; and the token goes into the text, among the recent choices, and into a ring in
// host memory. So the next step needs nothing from the host.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/math.cuh"
#include "sample/state.cuh"

namespace kiln {

/// The state of the rows of a batch. Config: kRing entries of a row's ring; kContext, which is settings.context or
/// more.
template <class Config> struct SequenceState {
  i32 *tokens;                      ///< [B]: argument of @decode, the last chosen token
  i32 *positions;                   ///< [B]: argument of @decode, the position of that token
  const SamplingSettings *settings; ///< [B]
  SamplingRow *rows;                ///< [B]
  u32 *launches;                    ///< [B]: choices so far
  u64 *ring;                        ///< [B][kRing], in host memory
  i32 *text;                        ///< [B][kContext]: the token of each position, up to the last chosen one
  i32 *recent;                      ///< [B][kRecent]

  /// Takes a row's next token. One thread calls this.
  KILN_DEVICE void take(u32 b, i32 token) const {
    const SamplingSettings &own = settings[b];
    SamplingRow &row = rows[b];
    bool isStop = token < 0;
    for (int i = 0; i < own.stopCount; ++i)
      isStop = isStop || own.stopTokens[i] == token;
    const int next = positions[b] + 1;
    tokens[b] = max(token, 0);
    positions[b] = min(next, own.context - 1);
    if (next < Config::kContext)
      text[i64(b) * Config::kContext + next] = tokens[b];
    row.position += 1;
    row.remaining -= 1;
    row.isFinished = isStop || row.remaining <= 0 || next >= own.context;
    publish(b, token);
  }

  /// Makes a choice known, or that there was none. One thread calls this.
  KILN_DEVICE void publish(u32 b, i32 token) const {
    const u32 choice = launches[b] + 1;
    launches[b] = choice;
    recent[i64(b) * kRecent + choice % kRecent] = token;
    storeToHost(ring + i64(b) * Config::kRing + choice % Config::kRing, ringEntry(choice, token));
  }
};

} // namespace kiln
