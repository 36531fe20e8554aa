#include "runtime/device/emulated/block/ClusterClocks.h"

namespace kiln {

bool ClusterClocks::reset(size_t blocks, size_t newWarpsOfBlock) {
  const bool forgets = !clocks.empty() || blocks > 1 || ticks >= AccessStamp::late / 2;
  if (forgets)
    ticks = 1;
  warpsOfBlock = newWarpsOfBlock;
  warps = blocks * warpsOfBlock;
  clocks.clear();
  completed.clear();
  if (blocks > 1)
    start();
  floor = ticks++;
  return forgets;
}

bool ClusterClocks::start() {
  if (!clocks.empty())
    return false;
  clocks.assign(warps, ClusterClock(warps));
  followed.assign(warps, 0);
  ++changes;
  return true;
}

size_t ClusterClocks::addBarrier() {
  start();
  for (ClusterClock &clock : clocks)
    clock.push_back(0);
  completed.push_back(0);
  ++changes;
  return completed.size() - 1;
}

void ClusterClocks::join(ClusterClock &clock, const ClusterClock &other) {
  if (clock.size() < other.size())
    clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// The barrier of a cluster's only block.
void ClusterClocks::orderEverything() {
  floor = ticks++;
  if (clocks.empty())
    return;
  for (const ClusterClock &clock : clocks)
    join(clocks.front(), clock);
  for (ClusterClock &clock : MutableArrayRef(clocks).drop_front())
    clock = clocks.front();
}

void ClusterClocks::syncBlock(size_t rank) {
  if (hasOneBlock())
    return orderEverything();
  // Other blocks are not part of it, so that no time orders everything: each warp gives its clock to all.
  ClusterClock phase;
  for (size_t i = 0; i < warpsOfBlock; ++i)
    release(rank * warpsOfBlock + i, phase);
  for (size_t i = 0; i < warpsOfBlock; ++i)
    acquire(rank * warpsOfBlock + i, phase);
}

void ClusterClocks::followEverything(size_t warp) {
  if (hasOneBlock())
    return orderEverything();
  // Threads that poll memory call this often, most of them with nothing to follow since the last time.
  if (followed[warp] == changes)
    return;
  followed[warp] = changes;
  ClusterClock &clock = clocks[warp];
  const uint32_t next = ++ticks;
  for (size_t other = 0; other < warps; ++other) {
    uint32_t &own = clocks[other][other];
    clock[other] = std::max({clock[other], own, floor + 1});
    own = next;
  }
  std::copy(completed.begin(), completed.end(), clock.begin() + static_cast<ptrdiff_t>(warps));
}

void ClusterClocks::release(size_t warp, ClusterClock &phase) {
  uint32_t &own = clocks[warp][warp];
  own = std::max(own, floor + 1);
  join(phase, clocks[warp]);
  own = ++ticks;
}

void ClusterClocks::acquire(size_t warp, const ClusterClock &phase) { join(clocks[warp], phase); }

void ClusterClocks::completePhase(ClusterClock &phase, size_t barrier, uint32_t phases) {
  ++changes;
  completed[barrier] = phases;
  if (phase.size() <= warps + barrier)
    phase.resize(warps + barrier + 1);
  phase[warps + barrier] = phases;
}

bool ClusterClocks::knowsOf(size_t warp, size_t rank) const {
  return llvm::any_of(ArrayRef(clocks[warp]).slice(rank * warpsOfBlock, warpsOfBlock),
                      [](uint32_t time) { return time > 0; });
}

} // namespace kiln
