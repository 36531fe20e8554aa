//===- phase_times.cuh - how long the phases of a kernel take ------------------------===//
//
// A kernel of phases is one launch, so a profiler shows one time for all of them. Where KILN_PHASE_TIMES is defined,
// the first thread of each block adds up the cycles of each phase in memory, and the host reads and clears the sums
// between launches. Without it nothing of this is in the kernel. A block that waits for others waits in the phase that
// needs them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/base.cuh"
#include "device/clock.cuh"
#include "device/index.cuh"

namespace kiln {

/// The phases of decode/layers.cuh, in their order: the names are in compiler/kernels/families/DecodeLayers.cpp. Start
/// is what comes before the first phase, Keys loads keys of the next attention.
enum class DecodePhase : u32 { Start, Embed, Keys, Qkv, Attention, Proj, Mid, Fc, Fcproj, Out, Logits };
constexpr u32 kDecodePhases = 11;

#if defined(KILN_PHASE_TIMES)

/// Of a thread. `sums` are words of all blocks, a word for each phase of each block.
class PhaseTimes {
public:
  explicit KILN_DEVICE PhaseTimes(u32 *sums) : own(sums + blockIndexX() * kDecodePhases), since(clockCycles()) {}

  /// Ends the phase before, and begins another.
  KILN_DEVICE void begin(DecodePhase next) {
    end();
    phase = next;
  }
  KILN_DEVICE void end() {
    const u32 now = clockCycles();
    if (threadIndex() == 0)
      atomicAdd(own + u32(phase), now - since);
    since = now;
  }

private:
  u32 *own;
  u32 since;
  DecodePhase phase = DecodePhase::Start;
};

#else

class PhaseTimes {
public:
  explicit KILN_DEVICE PhaseTimes(u32 *) {}
  KILN_DEVICE void begin(DecodePhase) {}
  KILN_DEVICE void end() {}
};

#endif

} // namespace kiln
