//===- Target.h - the GPU that a plan is made for ---------------------------===//
#pragma once

#include "kernels/targets/KernelTimes.h"
#include "support/model/DType.h"

namespace kiln {

// Suffixes of the files next to a target's file, which hold results measured on that target:
constexpr StringRef timesSuffix = ".times.toml";   ///< KernelTimes
constexpr StringRef tuningSuffix = ".tuning.toml"; ///< the fastest configurations: kernels/tuning/Tuning.h
constexpr StringRef ladderSuffix = ".ladder.toml"; ///< why rungs of the ladder are slow: tools/ladder/Reasons.h

/// One graphs/targets/*.toml. Rates are what kernels reach, not what the datasheet promises, where they were
/// measured; the file says which.
struct Target {
  std::string name;   ///< as NVRTC takes it: sm_90a
  std::string device; ///< the GPU the numbers are of
  int multiprocessors = 0;
  int threadsPerMultiprocessor = 0;
  int blocksPerMultiprocessor = 0;
  int sharedPerMultiprocessor = 0; ///< bytes
  int sharedPerBlock = 0;          ///< bytes, with the launch asking for it
  double l2Bytes = 0;
  double memoryRate = 0;    ///< bytes per second, reading
  double l2Rate = 0;        ///< bytes per second
  double f32Rate = 0;       ///< operations per second outside tensor cores
  double tensorRate = 0;    ///< operations per second in tensor cores, bf16, dense
  double mmaRate = 0;       ///< of these, by mma.sync, which Hopper and later have beside faster ways
  double launchSeconds = 0; ///< a dependent kernel in a CUDA graph
  bool hasWgmma = false;    ///< tensor cores have Hopper's instructions
  bool hasClusters = false; ///< of blocks, which exchange through shared memory; and bulk copies to it
  KernelTimes times;

  int computeCapability() const; ///< 90 for sm_90a

  /// The most bytes of shared memory with which so many blocks share a multiprocessor: CUDA keeps 1 KB of each.
  int64_t sharedOfEach(int64_t blocks) const { return sharedPerMultiprocessor / blocks - 1024; }
  /// Bytes of shared memory that a block asks for so that no more than so many blocks share a multiprocessor. Blocks
  /// start where others have ended, so that without it a kernel with fewer blocks than multiprocessors may have two of
  /// them on one, while another one is idle.
  int64_t sharedOfAtMost(int64_t blocks) const;

  /// The most operations per second on elements of this type, in tensor cores or outside. `isRounded`: fp32 whose
  /// factors are rounded to tf32, for which tensor cores have half their rate.
  double arithmeticRate(DType dtype, bool isRounded = false) const;
  /// The lower bound in seconds that memory and arithmetic set: the roofline model (Williams, Waterman, Patterson
  /// 2009), without the time of launches.
  double rooflineSeconds(int64_t bytes, int64_t flops, DType dtype, bool isRounded = false) const;
};

/// The target with this name. Error: an unknown name; the message lists the known ones.
Expected<const Target *> findTarget(StringRef name);

/// Every target, by name.
ArrayRef<Target> allTargets();

/// The target as modules see it whose kernels also run on other GPUs: with what each of allTargets() has, so that no
/// kernel has a use for Hopper's instructions, and a block no more shared memory than the least.
const Target &portable(const Target &target);

/// The virtual architectures for which plans can have PTX, by name: compute_80 for sm_80, compute_90 for sm_90a.
std::vector<std::string> ptxTargets();

/// Checks a target of code: a target above, or a virtual architecture. Error: an unknown name; the message lists the
/// known ones.
Error checkCodeTarget(StringRef name);

} // namespace kiln
