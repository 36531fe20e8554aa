//===- row.cuh - a row of logits, and how a block reads it ---------------------===//
//
// A row is divided into groups of neighbouring ids, and a warp reads one group at a time. Neighbouring lanes read
// neighbouring vectors of up to 16 bytes, as far as the rows' pitch allows (50257 allows only 4). The warp loads two
// groups ahead.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/index.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "sample/choice.cuh"
#include "shape.cuh"

namespace kiln {

/// A logit and its id in one word: of two words, the larger one is more probable, or has the lower id among equals.
KILN_DEVICE constexpr u64 packCandidate(u32 key, u32 id) { return u64(key) << 32 | ~id; }
KILN_DEVICE constexpr u32 keyOfCandidate(u64 candidate) { return u32(candidate >> 32); }
KILN_DEVICE constexpr u32 idOfCandidate(u64 candidate) { return ~u32(candidate); }

/// The candidate of a bad logit (NaN or +infinity), which precedes all others of its row.
constexpr u64 kBadCandidate = ~u64(0);

/// Constants that follow from sample.cuh's Config.
template <class Config> struct RowShape {
  static constexpr int kWarps = Config::kThreads / int(kWarpSize);
  static constexpr int kGroups = ceilDiv(Config::kVocabulary, Config::kGroup);
  static constexpr int kVector = widestVector(Config::kPitch, 4);
  static_assert(Config::kThreads % int(kWarpSize) == 0 && Config::kThreads <= 1024, "whole warps");
  static_assert(Config::kGroup % (4 * int(kWarpSize)) == 0, "whole vectors for each lane");
  static_assert(kGroups <= Config::kThreads, "a thread for each group");
};

/// The logits of a group that a lane reads: kVector neighbours, then kVector more a warp's vectors further on, and so
/// on. After the end of the vocabulary they are -infinity, whose weight is 0.
template <class Config> struct GroupLogits {
  using Shape = RowShape<Config>;
  static constexpr int kCount = Config::kGroup / int(kWarpSize);

  int firstId;
  float logits[kCount];

  KILN_DEVICE static GroupLogits load(const float *row, u32 group) {
    GroupLogits result;
    result.firstId = int(group) * Config::kGroup + int(laneIndex()) * Shape::kVector;
    // Loads are unconditional, so that all are in flight at once.
    constexpr int kLast = (Config::kVocabulary - 1) / Shape::kVector * Shape::kVector;
#pragma unroll
    for (int i = 0; i < kCount; i += Shape::kVector) {
      const auto vector = kiln::load<Shape::kVector>(row + min(result.idOf(i), kLast));
#pragma unroll
      for (int j = 0; j < Shape::kVector; ++j)
        result.logits[i + j] = result.idOf(i + j) < Config::kVocabulary ? vector[j] : -infinity();
    }
    return result;
  }

  KILN_DEVICE int idOf(int i) const {
    return firstId + i / Shape::kVector * Shape::kVector * int(kWarpSize) + i % Shape::kVector;
  }
  KILN_DEVICE u32 key(int i) const { return orderedKey(logits[i]); }
  KILN_DEVICE u64 candidate(int i) const { return packCandidate(key(i), u32(idOf(i))); }
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

/// The weights of a row's tokens.
struct TokenWeights {
  float largest;
  float scale;

  KILN_DEVICE u64 of(float logit) const { return tokenWeight(logit, largest, scale); }
  KILN_DEVICE u64 ofKey(u32 key) const { return of(valueOfKey(key)); }
};

} // namespace kiln
