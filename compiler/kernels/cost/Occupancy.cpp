#include "kernels/cost/Occupancy.h"

namespace kiln {

/// These numbers hold for every target.
constexpr int64_t registersPerMultiprocessor = 65536, quarters = 4, warpSize = 32;

Occupancy occupancyOf(const BlockDemand &demand, const Target &target) {
  int64_t warps = llvm::divideCeil(demand.threads, warpSize);
  int64_t registersOfWarp = llvm::alignTo(std::max<int64_t>(1, demand.registers) * warpSize, 256);
  int64_t warpsByRegisters = registersPerMultiprocessor / quarters / registersOfWarp * quarters;
  int64_t sharedOfBlock = llvm::alignTo(demand.sharedBytes + 1024, 128);

  const std::pair<int64_t, StringRef> limits[] = {
      {target.threadsPerMultiprocessor / (warps * warpSize), "threads"},
      {target.blocksPerMultiprocessor, "blocks"},
      {warpsByRegisters / warps, "registers"},
      {target.sharedPerMultiprocessor / sharedOfBlock, "shared memory"},
  };
  auto least = std::min_element(std::begin(limits), std::end(limits),
                                [](const auto &a, const auto &b) { return a.first < b.first; });
  double threads = static_cast<double>(least->first * warps * warpSize);
  return {least->first, threads / target.threadsPerMultiprocessor, least->second};
}

} // namespace kiln
