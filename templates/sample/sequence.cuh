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

/// A row's next input.
struct NextInput {
  i32 token, position;
  bool isFinished; ///< the row chooses no further tokens
};

/// What is known of a row before its next token: all that the choice of the token needs not wait for.
struct RowNow {
  i32 token, position;
  i32 context, remaining;
  u32 choices;
  u64 noisePosition; ///< SamplingRow::position
  bool isFinished;
  i32 stopCount, stopTokens[kMaxStopTokens];

  /// The input that a token gives.
  KILN_DEVICE NextInput with(i32 chosen) const {
    bool isStop = chosen < 0;
#pragma unroll
    for (int i = 0; i < kMaxStopTokens; ++i)
      isStop = isStop || (i < stopCount && stopTokens[i] == chosen);
    return {max(chosen, 0), min(position + 1, context - 1), isStop || remaining <= 1 || position + 1 >= context};
  }
};

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

  /// The loads are under way at once.
  KILN_DEVICE RowNow now(u32 b) const {
    const SamplingSettings &own = settings[b];
    const SamplingRow &row = rows[b];
    RowNow now{tokens[b],           positions[b],  own.context, row.remaining, launches[b], row.position,
               row.isFinished != 0, own.stopCount, {}};
#pragma unroll
    for (int i = 0; i < kMaxStopTokens; ++i)
      now.stopTokens[i] = own.stopTokens[i];
    return now;
  }

  /// Takes a row's next token. One thread calls this.
  KILN_DEVICE void take(u32 b, i32 token) const { take(b, token, now(b)); }
  KILN_DEVICE void take(u32 b, i32 token, const RowNow &now) const {
    const NextInput next = now.with(token);
    tokens[b] = next.token;
    positions[b] = next.position;
    if (now.position + 1 < Config::kContext)
      text[i64(b) * Config::kContext + now.position + 1] = next.token;
    rows[b].position = now.noisePosition + 1;
    rows[b].remaining = now.remaining - 1;
    rows[b].isFinished = next.isFinished;
    publish(b, token, now.choices + 1);
  }

  /// Makes a choice known, or that there was none. One thread calls this.
  KILN_DEVICE void publish(u32 b, i32 token) const { publish(b, token, launches[b] + 1); }
  KILN_DEVICE void publish(u32 b, i32 token, u32 choice) const {
    launches[b] = choice;
    recent[i64(b) * kRecent + choice % kRecent] = token;
    storeToHost(ring + i64(b) * Config::kRing + choice % Config::kRing, ringEntry(choice, token));
  }
};

} // namespace kiln
