//===- inbox.cuh - values that ranks write into each other's memory -----------------------===//
//
// Each rank of a model, one for each GPU, has an inbox in its memory. Others write into it while their kernels run, and
// the rank's own kernel waits for what they write. A value and its stamp are one word, as in a mailbox (mailbox.cuh):
// whoever sees the stamp sees the value, so that there is no flag and no fence.
//
// Where nobody waits twice for the same word without another exchange in between, values come without stamps, in half
// the bytes: the word of a value that has not come is 0. It holds the value's bits, inverted, so that no value but one
// NaN would be 0; that becomes another NaN. Whoever has read the value leaves 0 there.
//
// A rank may have stopped for good. Then the host sets the word that a wait gets, and the wait ends with an error of
// the launch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/mailbox.cuh"

namespace kiln {

/// The word of a value without a stamp.
KILN_DEVICE u32 postedBits(float value) {
  const u32 bits = ~bitCast<u32>(value);
  return bits == 0 ? 1 : bits;
}

#if defined(__CUDACC__)

/// Writes two values into a rank's inbox. `target` is at a multiple of 16 bytes. It orders no other accesses.
KILN_DEVICE void postToRank(StampedValue *target, const Vec<float, 2> &values, u32 stamp, Site = Site::current()) {
  const u64 high = u64(stamp) << 32;
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(target), "l"(high | bitCast<u32>(values[0])),
               "l"(high | bitCast<u32>(values[1]))
               : "memory");
}

/// Reads two words of this rank's inbox, as they are now.
KILN_DEVICE StampedPair peekFromRanks(const StampedValue *source, Site = Site::current()) {
  u64 first, second;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(source) : "memory");
  return {bitCast<StampedValue>(first), bitCast<StampedValue>(second)};
}

/// Ends the launch with an error if a rank has failed; looks only from time to time, since the word is far away.
KILN_DEVICE void trapIfStopped(u32 tries, const u32 *stop) {
  constexpr u32 kTriesBetweenLooks = 4096; // a few milliseconds
  if (tries % kTriesBetweenLooks != 0)
    return;
  u32 isStopped;
  asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(isStopped) : "l"(stop) : "memory");
  if (isStopped != 0)
    asm volatile("trap;");
}

/// Called before a peek is repeated; `tries` counts the calls of a loop from 0. `stop`: a word of the host's memory.
KILN_DEVICE void retryForRanks(u32 tries, const u32 *stop, Site = Site::current()) { trapIfStopped(tries + 1, stop); }

/// Waits until pairs of words of this rank's inbox, `stride` words apart, have the stamp. `stop`: a word of the host's
/// memory.
template <int kPairs>
KILN_DEVICE Vec<float, 2 * kPairs> awaitPosts(const StampedValue *source, u32 stride, u32 stamp, const u32 *stop,
                                              Site = Site::current()) {
  for (u32 tries = 1;; ++tries) {
    // All are under way at once.
    u64 words[kPairs][2];
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                   : "=l"(words[i][0]), "=l"(words[i][1])
                   : "l"(source + i * stride)
                   : "memory");
    Vec<float, 2 * kPairs> values;
    bool areHere = true;
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      const StampedValue word = bitCast<StampedValue>(words[i / 2][i % 2]);
      areHere &= word.stamp == stamp;
      values[i] = word.value;
    }
    if (areHere)
      return values;
    trapIfStopped(tries, stop);
  }
}

/// Writes values into words of a rank's inbox that are 0, by one access. `target` is at a multiple of its bytes.
template <int V> KILN_DEVICE void postBitsToRank(u32 *target, const Vec<float, V> &values, Site = Site::current()) {
  static_assert(V == 2 || V == 4);
  if constexpr (V == 4)
    asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(postedBits(values[0])),
                 "r"(postedBits(values[1])), "r"(postedBits(values[2])), "r"(postedBits(values[3]))
                 : "memory");
  else
    asm volatile("st.relaxed.sys.global.v2.b32 [%0], {%1, %2};" ::"l"(target), "r"(postedBits(values[0])),
                 "r"(postedBits(values[1]))
                 : "memory");
}

/// Waits until kPosts posts of V values, `stride` words apart, are there. Leaves 0 in their place. `stop` as for
/// awaitPosts.
template <int V, int kPosts>
KILN_DEVICE Vec<float, V * kPosts> takePostedBits(u32 *source, u32 stride, const u32 *stop, Site = Site::current()) {
  static_assert(V == 2 || V == 4);
  for (u32 tries = 1;; ++tries) {
    // All are under way at once.
    u32 words[kPosts][V];
#pragma unroll
    for (int i = 0; i < kPosts; ++i)
      if constexpr (V == 4)
        asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[i][0]), "=r"(words[i][1]), "=r"(words[i][2]), "=r"(words[i][3])
                     : "l"(source + i * stride)
                     : "memory");
      else
        asm volatile("ld.relaxed.sys.global.v2.b32 {%0, %1}, [%2];"
                     : "=r"(words[i][0]), "=r"(words[i][1])
                     : "l"(source + i * stride)
                     : "memory");
    Vec<float, V * kPosts> values;
    bool areHere = true;
#pragma unroll
    for (int i = 0; i < V * kPosts; ++i) {
      areHere &= words[i / V][i % V] != 0;
      values[i] = bitCast<float>(~words[i / V][i % V]);
    }
    if (areHere) {
#pragma unroll
      for (int i = 0; i < kPosts; ++i)
        if constexpr (V == 4)
          asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(source + i * stride), "r"(0)
                       : "memory");
        else
          asm volatile("st.relaxed.sys.global.v2.b32 [%0], {%1, %1};" ::"l"(source + i * stride), "r"(0) : "memory");
      return values;
    }
    trapIfStopped(tries, stop);
  }
}

/// Tells a rank how often this one has arrived, in the rank's inbox. What this thread did before, and what it has seen
/// of other threads, is visible to those that await it.
KILN_DEVICE void arriveAtRank(u32 *arrivals, u32 count, Site = Site::current()) {
  asm volatile("fence.acq_rel.sys;\n"
               "st.relaxed.sys.global.b32 [%0], %1;" ::"l"(arrivals),
               "r"(count)
               : "memory");
}

/// Adds an arrival to a rank's count of those of several blocks or ranks; otherwise as arriveAtRank.
KILN_DEVICE void countAtRank(u32 *arrivals, Site = Site::current()) {
  asm volatile("fence.acq_rel.sys;\n"
               "red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(arrivals)
               : "memory");
}

/// Waits until a rank has arrived so often, or more.
KILN_DEVICE void awaitRank(const u32 *arrivals, u32 count, const u32 *stop, Site = Site::current()) {
  for (u32 tries = 1;; ++tries) {
    u32 arrived;
    asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(arrived) : "l"(arrivals) : "memory");
    if (i32(arrived - count) >= 0)
      return;
    trapIfStopped(tries, stop);
  }
}

#else

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void arriveAtRank(u32 *arrivals, u32 count, Site site = Site::current()) {
  emulatedNote(arrivals, EmulatedAccess::Atomic);
  __atomic_store_n(arrivals, count, __ATOMIC_RELEASE);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void countAtRank(u32 *arrivals, Site site = Site::current()) {
  emulatedNote(arrivals, EmulatedAccess::Atomic);
  __atomic_fetch_add(arrivals, 1, __ATOMIC_ACQ_REL);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void awaitRank(const u32 *arrivals, u32 count, const u32 *stop,
                                                        Site site = Site::current()) {
  emulatedNote(arrivals, EmulatedAccess::Atomic);
  for (u32 turn = 0; i32(__atomic_load_n(arrivals, __ATOMIC_ACQUIRE) - count) < 0; ++turn)
    emulatedThread->pauseForRank(turn, stop, site);
  emulatedThread->acquire();
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE StampedPair peekFromRanks(const StampedValue *source,
                                                                   Site site = Site::current()) {
  emulatedCheckAligned(source, 2 * sizeof(StampedValue), site);
  StampedValue words[2];
  for (int i = 0; i < 2; ++i) {
    emulatedNote(source + i, EmulatedAccess::Atomic);
    words[i] = bitCast<StampedValue>(__atomic_load_n(reinterpret_cast<const u64 *>(source + i), __ATOMIC_ACQUIRE));
  }
  return {words[0], words[1]};
}

KILN_DEVICE void retryForRanks(u32 tries, const u32 *stop, Site site = Site::current()) {
  emulatedThread->pauseForRank(tries, stop, site);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void postToRank(StampedValue *target, const Vec<float, 2> &values, u32 stamp,
                                                         Site site = Site::current()) {
  emulatedCheckAligned(target, 2 * sizeof(StampedValue), site);
  for (int i = 0; i < 2; ++i) {
    emulatedNote(target + i, EmulatedAccess::Atomic);
    // Ranks run in different threads of the host, or in different processes.
    __atomic_store_n(reinterpret_cast<u64 *>(target + i), bitCast<u64>(StampedValue{values[i], stamp}),
                     __ATOMIC_RELEASE);
  }
}

template <int kPairs>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE Vec<float, 2 * kPairs>
awaitPosts(const StampedValue *source, u32 stride, u32 stamp, const u32 *stop, Site site = Site::current()) {
  Vec<float, 2 * kPairs> values;
  u32 turn = 0;
  for (int i = 0; i < 2 * kPairs; ++i) {
    const StampedValue *at = source + i / 2 * stride + i % 2;
    emulatedCheckAligned(source + i / 2 * stride, 2 * sizeof(StampedValue), site);
    for (emulatedNote(at, EmulatedAccess::Atomic);; emulatedThread->pauseForRank(turn++, stop, site)) {
      const auto word = bitCast<StampedValue>(__atomic_load_n(reinterpret_cast<const u64 *>(at), __ATOMIC_ACQUIRE));
      values[i] = word.value;
      if (word.stamp == stamp)
        break;
    }
  }
  return values;
}

template <int V>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void postBitsToRank(u32 *target, const Vec<float, V> &values,
                                                             Site site = Site::current()) {
  emulatedCheckAligned(target, V * sizeof(u32), site);
  for (int i = 0; i < V; ++i) {
    emulatedNote(target + i, EmulatedAccess::Atomic);
    if (__atomic_exchange_n(target + i, postedBits(values[i]), __ATOMIC_RELEASE) != 0)
      emulatedThread->fail("posts a value where another has not been taken yet", site);
  }
}

template <int V, int kPosts>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE Vec<float, V * kPosts> takePostedBits(u32 *source, u32 stride, const u32 *stop,
                                                                               Site site = Site::current()) {
  Vec<float, V * kPosts> values;
  u32 turn = 0;
  for (int i = 0; i < V * kPosts; ++i) {
    u32 *const at = source + i / V * stride + i % V;
    emulatedCheckAligned(source + i / V * stride, V * sizeof(u32), site);
    emulatedNote(at, EmulatedAccess::Atomic);
    u32 word = 0;
    while ((word = __atomic_exchange_n(at, 0, __ATOMIC_ACQ_REL)) == 0)
      emulatedThread->pauseForRank(turn++, stop, site);
    values[i] = bitCast<float>(~word);
  }
  return values;
}

#endif

} // namespace kiln
