#include "runtime/device/emulated/AccessHistory.h"

namespace kiln {

static constexpr AccessKind accessKinds[] = {
    {.reads = true, .writes = false, .does = "reads", .hasDone = "read"},
    {.reads = false, .writes = true, .does = "writes", .hasDone = "written"},
    {.reads = true, .writes = true, .does = "atomically changes", .hasDone = "atomically changed"},
};
static_assert(std::size(accessKinds) == kEmulatedAccesses);

/// Whether unordered accesses of two threads race, by the kinds of the two.
static constexpr bool raceTable[][kEmulatedAccesses] = {
    //           Read   Write  Atomic
    /* Read   */ {false, true, true},
    /* Write  */ {true, true, true},
    /* Atomic */ {true, true, false},
};
static_assert(std::size(raceTable) == kEmulatedAccesses);

const AccessKind &kindOf(EmulatedAccess access) { return accessKinds[static_cast<size_t>(access)]; }

// These functions run several times for every word that a kernel touches.

inline bool AccessHistory::Touch::isOfWarp(uint32_t warp) const {
  if (thread == severalWarps)
    return false;
  return thread & severalLanes ? (thread & ~severalLanes) == warp : thread / 32 == warp;
}

inline bool AccessHistory::Touch::isOrdered(const AccessTime &now) const {
  if (blockSyncs != now.blockSyncs || thread == now.thread)
    return true;
  return isOfWarp(now.thread / 32) && warpSyncs != static_cast<uint16_t>(now.warpSyncs);
}

inline void AccessHistory::Touch::add(const AccessTime &now) {
  uint16_t whose = static_cast<uint16_t>(now.thread);
  if (!isOrdered(now))
    whose = isOfWarp(now.thread / 32) ? severalLanes | static_cast<uint16_t>(now.thread / 32) : severalWarps;
  *this = {now.blockSyncs, static_cast<uint16_t>(now.warpSyncs), whose, now.code};
}

std::string AccessHistory::nameOf(const Touch &touch) {
  if (touch.thread == severalWarps)
    return "threads of several warps have";
  if (touch.thread & severalLanes)
    return formatv("threads of warp {0} have", touch.thread & ~severalLanes);
  return formatv("thread {0} has", touch.thread);
}

std::optional<AccessHistory::Race> AccessHistory::note(size_t offset, size_t bytes, EmulatedAccess access,
                                                       const AccessTime &now) {
  if (bytes % wordBytes || offset % wordBytes)
    return std::nullopt;
  size_t first = offset / wordBytes, count = bytes / wordBytes;
  if (first + count > words.size())
    words.resize(first + count);
  const auto kind = static_cast<size_t>(access);
  for (Word &word : MutableArrayRef(words).slice(first, count)) {
    for (size_t other = 0; other < word.size(); ++other)
      if (raceTable[kind][other] && !word[other].isOrdered(now))
        return Race{"that " + nameOf(word[other]) + " " + kindOf(static_cast<EmulatedAccess>(other)).hasDone,
                    word[other].code};
    word[kind].add(now);
  }
  return std::nullopt;
}

} // namespace kiln
