#include "kernels/cost/BlockCost.h"

#include <cmath>

namespace kiln {

double estimateSeconds(const BlockCost &cost, const Target &target) {
  int64_t byThreads = target.threadsPerMultiprocessor / std::max<int64_t>(32, cost.threads);
  int64_t byShared = cost.sharedBytes ? target.sharedPerMultiprocessor / cost.sharedBytes : byThreads;
  double resident = static_cast<double>(std::max<int64_t>(1, std::min({byThreads, byShared, int64_t(16)})));
  // Blocks beyond a full set wait; the last, partly filled set takes as long as its fullest multiprocessor.
  double perMultiprocessor = std::ceil(cost.blocks / target.multiprocessors);
  double sets = std::floor(perMultiprocessor / resident);
  double rest = perMultiprocessor - sets * resident;
  // A multiprocessor needs about 512 threads to fill its pipelines.
  auto rate = [&](double blocks) {
    return target.f32Rate / target.multiprocessors * cost.efficiency *
           std::min(1.0, blocks * static_cast<double>(cost.threads) / 512.0);
  };
  double arithmetic = sets * resident * cost.flopsPerBlock / rate(resident);
  if (rest > 0)
    arithmetic += rest * cost.flopsPerBlock / rate(rest);
  double busy = std::min(1.0, cost.blocks / target.multiprocessors);
  double memoryRate = target.memoryRate;
  if (cost.bytesInFlight > 0) {
    // Little's law: the bytes that must be in flight to keep the memory busy.
    double underWay =
        std::min(cost.blocks, resident * target.multiprocessors) * static_cast<double>(cost.bytesInFlight);
    memoryRate *= std::min(1.0, underWay / (target.memoryRate * target.times.memoryLatency));
  }
  double memory = cost.memoryBytes / memoryRate;
  double l2 = cost.blocks * cost.l2BytesPerBlock / (target.l2Rate * busy);
  // Small blocks end faster than new ones are started.
  double starts = cost.blocks * target.times.blockStart;
  return target.launchSeconds + std::max({arithmetic, memory, l2, starts});
}

} // namespace kiln
