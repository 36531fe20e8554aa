//===- row.cuh - a row of logits, and how a block reads it ---------------------===//
//
// A row is divided into groups of neighbouring ids, and a warp reads one group at a time, neighbouring lanes
// neighbouring logits. (GPT-2's 50257 ids leave rows unaligned, so that wider loads would be of no use.) The warp loads
// two groups ahead.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/index.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "sample/choice.cuh"
#include "shape.cuh"

namespace kiln {

/// The candidate, among logits, of a bad one (NaN or +infinity), which precedes all others of its row.
constexpr u64 kBadCandidate = ~u64(0);

/// The candidate of a logit, by logit.
KILN_DEVICE u64 candidateOf(float logit, u32 id) {
  return logit < infinity() ? packCandidate(orderedKey(logit), id) : kBadCandidate;
}

/// Constants that follow from sample.cuh's Config.
template <class Config> struct RowShape {
  static constexpr int kWarps = Config::kThreads / int(kWarpSize);
  static constexpr int kGroups = ceilDiv(Config::kVocabulary, Config::kGroup);
  static_assert(Config::kThreads % int(kWarpSize) == 0 && Config::kThreads <= 1024, "whole warps");
  static_assert(Config::kGroup % kNoiseIds == 0, "whole blocks of random words for each lane");
  static_assert(kGroups <= Config::kThreads, "a thread for each group");
};

/// The logits of a group that a lane reads, 32 ids apart. After the end of the vocabulary they are -infinity, which is
/// never drawn.
template <class Config> struct GroupLogits {
  static constexpr int kCount = Config::kGroup / int(kWarpSize);

  int firstId;
  float logits[kCount];

  KILN_DEVICE static GroupLogits load(const float *row, u32 group) {
    GroupLogits result;
    result.firstId = int(group) * Config::kGroup + int(laneIndex());
    // Loads are unconditional, so that all are in flight at once.
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float logit = row[min(result.idOf(i), Config::kVocabulary - 1)];
      result.logits[i] = result.idOf(i) < Config::kVocabulary ? logit : -infinity();
    }
    return result;
  }

  KILN_DEVICE int idOf(int i) const { return firstId + i * int(kWarpSize); }
  KILN_DEVICE u32 key(int i) const { return orderedKey(logits[i]); }
  KILN_DEVICE u64 candidate(int i) const { return packCandidate(key(i), u32(idOf(i))); }

  /// The candidate of TokenDraw that a lane would draw of the tokens whose candidate, by logit, is at least `least`.
  KILN_DEVICE u64 draw(const TokenDraw &draw, u64 least) const {
    constexpr int kWords = kNoiseIds / int(kWarpSize);
    u64 best = 0;
#pragma unroll
    for (int first = 0; first < kCount; first += kWords) {
      const PhiloxWords random = noiseWords(draw.noise, noiseBlock(u32(idOf(first))));
      // Not unrolled: warps hide each other's latency, and several noises at a time would take too many registers.
#pragma unroll 1
      for (int i = 0; i < kWords; ++i) {
        const float logit = pick(logits + first, i);
        const u32 id = u32(idOf(first + i));
        if (packCandidate(orderedKey(logit), id) >= least && draw.isKept(logit))
          best = max(best, draw.candidate(logit, id, tokenNoise(draw.noise, id, pick(random.words, i))));
      }
    }
    return best;
  }

private:
  /// One of four values in registers.
  template <class T> KILN_DEVICE static T pick(const T *values, int i) {
    return i < 2 ? (i == 0 ? values[0] : values[1]) : i == 2 ? values[2] : values[3];
  }
};

/// Calls body(group, logits) for group = groupAt(0) .. groupAt(count - 1). All lanes of one warp of the block take each
/// group together.
template <class Config, class GroupAt, class Body>
KILN_DEVICE void walkGroups(const float *row, u32 count, GroupAt groupAt, Body body) {
  // Each warp has two groups in flight before the first arrives: 32 KB for 32 warps. More loads would not arrive
  // sooner, and a body for each would only be more code to fetch.
  constexpr u32 kStep = RowShape<Config>::kWarps;
  if (warpIndex() >= count)
    return;
  auto load = [&](u32 i) { return GroupLogits<Config>::load(row, groupAt(min(i, count - 1))); };
  GroupLogits<Config> now = load(warpIndex()), next = load(warpIndex() + kStep);
#pragma unroll 1
  for (u32 i = warpIndex(); i < count; i += kStep) {
    const GroupLogits<Config> afterNext = load(i + 2 * kStep);
    body(groupAt(i), now);
    now = next;
    next = afterNext;
  }
}

} // namespace kiln
