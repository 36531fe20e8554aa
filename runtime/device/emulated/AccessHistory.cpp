#include "runtime/device/emulated/AccessHistory.h"

namespace kiln {

// These two are asked twice for every word that a kernel touches.

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

void AccessHistory::noteRead(Touch &read, const AccessTime &now) {
  uint16_t thread = static_cast<uint16_t>(now.thread);
  if (!read.isOrdered(now))
    thread = read.isOfWarp(now.thread / 32) ? severalLanes | static_cast<uint16_t>(now.thread / 32) : severalWarps;
  read = {now.blockSyncs, static_cast<uint16_t>(now.warpSyncs), thread, now.code};
}

std::string AccessHistory::nameOf(const Touch &touch) {
  if (touch.thread == severalWarps)
    return "threads of several warps have";
  if (touch.thread & severalLanes)
    return formatv("threads of warp {0} have", touch.thread & ~severalLanes);
  return formatv("thread {0} has", touch.thread);
}

std::optional<AccessHistory::Race> AccessHistory::note(size_t offset, size_t bytes, bool isWrite,
                                                       const AccessTime &now) {
  if (bytes % wordBytes || offset % wordBytes)
    return std::nullopt;
  size_t first = offset / wordBytes, count = bytes / wordBytes;
  if (first + count > words.size())
    words.resize(first + count);
  for (Word &word : MutableArrayRef(words).slice(first, count)) {
    if (!word.written.isOrdered(now))
      return Race{"that " + nameOf(word.written) + " written", word.written.code};
    if (isWrite && !word.read.isOrdered(now))
      return Race{"that " + nameOf(word.read) + " read", word.read.code};
    if (isWrite)
      word.written = {now.blockSyncs, static_cast<uint16_t>(now.warpSyncs), static_cast<uint16_t>(now.thread),
                      now.code};
    else
      noteRead(word.read, now);
  }
  return std::nullopt;
}

} // namespace kiln
