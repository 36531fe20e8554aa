#include "runtime/device/emulated/block/PhaseBarrier.h"

#include <cstring>

namespace kiln {

std::optional<size_t> PhaseBarrier::indexAt(const u64 *place, ArrayRef<PhaseBarrier> barriers) {
  u64 state;
  std::memcpy(&state, place, sizeof(state));
  const size_t index = state ^ markBits;
  if (index < barriers.size() && barriers[index].place == place)
    return index;
  return std::nullopt;
}

void PhaseBarrier::beginPhase(ClusterClocks &clocks, size_t index) {
  clocks.completePhase(before, index, ++phases);
  complete = before;
  missing = arrivals;
  expected = copied = arrived = 0;
}

std::string PhaseBarrier::missingParts() const {
  std::string text;
  if (missing > 0)
    text = formatv("{0} more arrival{1}", missing, missing == 1 ? "" : "s");
  if (expected > arrived)
    text += formatv("{0}{1} bytes", text.empty() ? "" : " and ", expected - arrived).str();
  return text;
}

} // namespace kiln
