#include "runtime/device/emulated/BlockClocks.h"

namespace kiln {

bool BlockClocks::reset(size_t newWarps) {
  const bool forgets = !clocks.empty() || ticks >= AccessStamp::late / 2;
  if (forgets)
    ticks = 1;
  clocks.clear();
  warps = newWarps;
  floor = ticks++;
  return forgets;
}

size_t BlockClocks::addBarrier() {
  if (clocks.empty())
    clocks.assign(warps, BlockClock(AccessStamp::maxWarps));
  for (BlockClock &clock : clocks)
    clock.push_back(0);
  return clocks.front().size() - AccessStamp::maxWarps - 1;
}

void BlockClocks::join(BlockClock &clock, const BlockClock &other) {
  if (clock.size() < other.size())
    clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

void BlockClocks::syncBlock() {
  floor = ticks++;
  if (clocks.empty())
    return;
  for (const BlockClock &clock : clocks)
    join(clocks.front(), clock);
  for (BlockClock &clock : MutableArrayRef(clocks).drop_front())
    clock = clocks.front();
}

void BlockClocks::release(size_t warp, BlockClock &phase) {
  uint32_t &own = clocks[warp][warp];
  own = std::max(own, floor + 1);
  join(phase, clocks[warp]);
  own = ++ticks;
}

void BlockClocks::acquire(size_t warp, const BlockClock &phase) { join(clocks[warp], phase); }

} // namespace kiln
