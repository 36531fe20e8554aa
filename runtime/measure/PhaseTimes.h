//===- PhaseTimes.h - how the time of a kernel is spent -------------------===//
#pragma once

#include "runtime/execution/Executor.h"

namespace kiln {

/// The share that a phase has of a kernel's time, from 0 to 1: the mean over its blocks. A block that waits for others
/// waits in the phase that needs them.
struct PhaseShare {
  std::string name;
  double share = 0;
};

/// Compiles the launch's kernel once more, with clocks (templates/decode/phase_times.cuh), and launches it some times:
/// the phases in the order of the kernel, whose shares together are 1. Empty if the kernel has no phases. What the
/// launch needs must be on the device, where it stays. Error: errors of the device and of the compiler.
Expected<std::vector<PhaseShare>> measurePhases(Executor &executor, KernelLaunch launch);

} // namespace kiln
