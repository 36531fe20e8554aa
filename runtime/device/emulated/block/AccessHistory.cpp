#include "runtime/device/emulated/block/AccessHistory.h"

#include <numeric>

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

bool AccessStamp::isOrderedWithoutBlockBarrier(const AccessTime &now) const {
  if (kind() == Copy)
    return now.phases && now.phases[index()] >= time - late;
  if (kind() == Warps || kind() == Listed)
    return false;
  const size_t warp = kind() == Thread ? index() / 32 : index();
  if (warp == now.thread / 32)
    return kind() == Warp || warpSyncs != static_cast<uint16_t>(now.warpSyncs);
  return now.seen && time <= now.seen[warp];
}

inline const AccessHistory::Touch *AccessHistory::unordered(const Touch &touch, const AccessTime &now) const {
  if (touch.stamp.isOrdered(now))
    return nullptr;
  if (touch.stamp.kind() != AccessStamp::Listed)
    return &touch;
  ArrayRef<Touch> list = listOf(touch);
  const Touch *found = llvm::find_if(list, [&](const Touch &one) { return !one.stamp.isOrdered(now); });
  return found == list.end() ? nullptr : found;
}

inline void AccessHistory::addWithinWarp(Touch &touch, const AccessTime &now) {
  const bool isAlone = touch.stamp.isOrdered(now);
  touch = {now.stamp, now.code};
  if (!isAlone)
    touch.stamp = AccessStamp::of(AccessStamp::Lanes, now.thread / 32, now.stamp.time, now.warpSyncs);
}

void AccessHistory::startList(Touch &touch, const AccessTime &now) {
  if (unusedLists.empty()) {
    unusedLists.push_back(static_cast<uint32_t>(lists.size()));
    lists.emplace_back();
  }
  const Touch earlier = touch;
  touch = {AccessStamp::of(AccessStamp::Listed, 0, AccessStamp::late + unusedLists.back()), now.code};
  unusedLists.pop_back();
  listOf(touch).assign({earlier, {now.stamp, now.code}});
}

inline void AccessHistory::addToList(std::vector<Touch> &list, const AccessTime &now) {
  auto own = llvm::find_if(list, [&](const Touch &one) { return one.stamp.isOfWarp(now.thread / 32); });
  if (own == list.end())
    list.push_back({now.stamp, now.code});
  else
    addWithinWarp(*own, now);
}

void AccessHistory::dropList(Touch &touch) {
  unusedLists.push_back(touch.stamp.time - AccessStamp::late);
  touch = {};
}

inline void AccessHistory::add(Touch &touch, const AccessTime &now) {
  if (touch.stamp.isOrdered(now))
    touch = {now.stamp, now.code};
  else if (touch.stamp.kind() == AccessStamp::Listed)
    addToList(listOf(touch), now);
  else if (touch.stamp.isOfWarp(now.thread / 32))
    addWithinWarp(touch, now);
  else if (now.seen && touch.stamp.kind() != AccessStamp::Warps)
    startList(touch, now);
  else
    touch = {AccessStamp::of(AccessStamp::Warps, 0, now.stamp.time), now.code};
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
      if (raceTable[kind][other])
        if (const Touch *race = unordered(word[other], now))
          return Race{race->stamp, static_cast<EmulatedAccess>(other), race->code};
    add(word[kind], now);
    // What races with an access before a write, and is ordered after the write, is ordered after the access too.
    if (access == EmulatedAccess::Write && unusedLists.size() < lists.size())
      for (Touch &touch : word)
        if (touch.stamp.kind() == AccessStamp::Listed)
          dropList(touch);
  }
  return std::nullopt;
}

void AccessHistory::clear() {
  words.clear();
  // Lists keep their memory for the next block.
  unusedLists.resize(lists.size());
  std::iota(unusedLists.begin(), unusedLists.end(), 0);
}

} // namespace kiln
