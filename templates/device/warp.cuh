//===- warp.cuh - collectives of a warp ---------------------------------------===//
//
// Every lane of `lanes` (default: the whole warp) must call the collective at the same place with the same `lanes`; the
// emulator reports violations. T is float, i32, u32 or u64. Only syncWarp orders the shared-memory accesses of its
// lanes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/bits.cuh"
#include "device/index.cuh"
#include "device/math.cuh"

namespace kiln {

constexpr u32 kAllLanes = 0xffffffffu;

/// The combinations of warpReduce.
struct Sum {
  template <class T> KILN_DEVICE static T of(T a, T b) { return a + b; }
};
struct Max {
  template <class T> KILN_DEVICE static T of(T a, T b) { return max(a, b); }
  KILN_DEVICE static float of(float a, float b) { return fmax(a, b); }
};

#if defined(__CUDACC__)

/// `value` of lane `source` (modulo the warp size).
template <class T> KILN_DEVICE T shuffle(T value, u32 source, u32 lanes = kAllLanes, Site = Site::current()) {
  return __shfl_sync(lanes, value, source);
}
/// `value` of the lane whose index differs from this one's in the bits of `mask`.
template <class T>
KILN_DEVICE T shuffleXor(T value, u32 mask, u32 lanes = kAllLanes, Site = Site::current()) {
  return __shfl_xor_sync(lanes, value, mask);
}
/// `value` of the lane `delta` places further on; the last `delta` lanes get their own.
template <class T>
KILN_DEVICE T shuffleDown(T value, u32 delta, u32 lanes = kAllLanes, Site = Site::current()) {
  return __shfl_down_sync(lanes, value, delta);
}

/// The lanes for which `predicate` holds, one bit each.
KILN_DEVICE u32 ballot(bool predicate, u32 lanes = kAllLanes, Site = Site::current()) {
  return __ballot_sync(lanes, predicate);
}

/// Waits for the lanes, and makes what each wrote to memory visible to the others.
KILN_DEVICE void syncWarp(u32 lanes = kAllLanes, Site = Site::current()) { __syncwarp(lanes); }

/// Combines the values of each group of kWidth neighbouring lanes; all of them get the result. It is a butterfly: each
/// lane combines with the lane 16, 8, 4, 2, 1 away in turn, so that all lanes add in the same order.
template <class Combine, u32 kWidth, class T> KILN_DEVICE T warpReduce(T value, u32 lanes, Site) {
#pragma unroll
  for (u32 distance = kWidth / 2; distance > 0; distance /= 2)
    value = Combine::of(value, __shfl_xor_sync(lanes, value, distance));
  return value;
}

#else

/// A lane's input to a shuffle: its value, and the lane that it reads from.
template <class T> struct EmulatedShuffle {
  T value;
  u32 source;
  T result;

  static const char *combine(void *const *lanes) {
    for (u32 i = 0; i < kWarpSize; ++i) {
      auto *lane = static_cast<EmulatedShuffle *>(lanes[i]);
      if (!lane)
        continue;
      const auto *source = static_cast<const EmulatedShuffle *>(lanes[lane->source]);
      if (!source)
        return "shuffle from a lane that takes no part";
      lane->result = source->value;
    }
    return nullptr;
  }
};

template <class T>
KILN_DEVICE T shuffle(T value, u32 source, u32 lanes = kAllLanes, Site site = Site::current()) {
  EmulatedShuffle<T> lane{value, source % kWarpSize, {}};
  emulatedThread->syncWarp(lanes, &lane, EmulatedShuffle<T>::combine, site);
  return lane.result;
}
template <class T>
KILN_DEVICE T shuffleXor(T value, u32 mask, u32 lanes = kAllLanes, Site site = Site::current()) {
  return shuffle(value, laneIndex() ^ mask, lanes, site);
}
template <class T>
KILN_DEVICE T shuffleDown(T value, u32 delta, u32 lanes = kAllLanes, Site site = Site::current()) {
  const u32 source = laneIndex() + delta;
  return shuffle(value, source < kWarpSize ? source : laneIndex(), lanes, site);
}

struct EmulatedBallot {
  bool predicate;
  u32 result;

  static const char *combine(void *const *lanes) {
    u32 holds = 0;
    for (u32 i = 0; i < kWarpSize; ++i)
      if (lanes[i] && static_cast<EmulatedBallot *>(lanes[i])->predicate)
        holds |= 1u << i;
    for (u32 i = 0; i < kWarpSize; ++i)
      if (lanes[i])
        static_cast<EmulatedBallot *>(lanes[i])->result = holds;
    return nullptr;
  }
};

KILN_DEVICE u32 ballot(bool predicate, u32 lanes = kAllLanes, Site site = Site::current()) {
  EmulatedBallot lane{predicate, 0};
  emulatedThread->syncWarp(lanes, &lane, EmulatedBallot::combine, site);
  return lane.result;
}

KILN_DEVICE void syncWarp(u32 lanes = kAllLanes, Site site = Site::current()) {
  emulatedThread->syncWarp(lanes, nullptr, [](void *const *) -> const char * { return nullptr; }, site);
}

/// Of a primitive that is a collective of the warp on the GPU alone: lanes meet, and nothing is ordered.
struct EmulatedMeeting {
  static const char *combine(void *const *) { return nullptr; }
};
KILN_DEVICE void emulatedMeet(Site site) {
  EmulatedMeeting lane;
  emulatedThread->syncWarp(kAllLanes, &lane, EmulatedMeeting::combine, site);
}

/// The additions of the butterfly in the same order, with one rendezvous instead of five.
template <class Combine, u32 kWidth, class T> struct EmulatedReduction {
  static const char *combine(void *const *lanes) {
    T values[kWarpSize], others[kWarpSize];
    for (u32 i = 0; i < kWarpSize; ++i) {
      if (lanes[i] && !lanes[i - i % kWidth + (i + 1) % kWidth])
        return "reduction over lanes of which some take no part";
      values[i] = lanes[i] ? *static_cast<T *>(lanes[i]) : T{};
    }
    for (u32 distance = kWidth / 2; distance > 0; distance /= 2) {
      __builtin_memcpy(others, values, sizeof(values));
      for (u32 i = 0; i < kWarpSize; ++i)
        values[i] = Combine::of(others[i], others[i ^ distance]);
    }
    for (u32 i = 0; i < kWarpSize; ++i)
      if (lanes[i])
        *static_cast<T *>(lanes[i]) = values[i];
    return nullptr;
  }
};

template <class Combine, u32 kWidth, class T> KILN_DEVICE T warpReduce(T value, u32 lanes, Site site) {
  emulatedThread->syncWarp(lanes, &value, EmulatedReduction<Combine, kWidth, T>::combine, site);
  return value;
}

#endif

/// Whether `predicate` holds for any lane, for all lanes.
KILN_DEVICE bool any(bool predicate, u32 lanes = kAllLanes, Site site = Site::current()) {
  return ballot(predicate, lanes, site) != 0;
}
KILN_DEVICE bool all(bool predicate, u32 lanes = kAllLanes, Site site = Site::current()) {
  return ballot(predicate, lanes, site) == lanes;
}

/// The sum and the maximum of each group of kWidth neighbouring lanes (2, 4, 8, 16 or 32); all lanes of the group get
/// it. Results are bitwise equal on every lane, and on CPU and GPU.
template <u32 kWidth = kWarpSize, class T>
KILN_DEVICE T warpSum(T value, u32 lanes = kAllLanes, Site site = Site::current()) {
  return warpReduce<Sum, kWidth>(value, lanes, site);
}
template <u32 kWidth = kWarpSize, class T>
KILN_DEVICE T warpMax(T value, u32 lanes = kAllLanes, Site site = Site::current()) {
  return warpReduce<Max, kWidth>(value, lanes, site);
}

/// The maximum of the warp's values, in one instruction from sm_80 on; NaN is larger than all numbers, or less with a
/// sign.
KILN_DEVICE float warpMaxByOrder(float value, Site site = Site::current()) {
  // As integers, floats are in order but for the negative ones among themselves.
  const auto ordered = [](i32 bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return bitCast<float>(ordered(__reduce_max_sync(kAllLanes, ordered(bitCast<i32>(value)))));
#else
  return bitCast<float>(ordered(warpMax(ordered(bitCast<i32>(value)), kAllLanes, site)));
#endif
}

/// The sum of the values of this lane and those below it, in the whole warp.
template <class T> KILN_DEVICE T warpInclusiveSum(T value, Site site = Site::current()) {
#pragma unroll
  for (u32 distance = 1; distance < kWarpSize; distance *= 2) {
    const T below = shuffle(value, laneIndex() - distance, kAllLanes, site);
    if (laneIndex() >= distance)
      value += below;
  }
  return value;
}

} // namespace kiln
