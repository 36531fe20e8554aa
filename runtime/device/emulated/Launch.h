//===- Launch.h - a launch and its options --------------------------------===//
#pragma once

#include "runtime/device/emulated/memory/Memory.h"
#include "runtime/device/emulated/memory/WrittenBytes.h"

#include "device/emulated.cuh"

namespace kiln {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;

  /// For a grid that EmulatedLauncher accepts: less than 2^63.
  uint64_t count() const { return static_cast<uint64_t>(x) * y * z; }
};

/// The order in which blocks start, and in which ready threads are resumed. The results of a correct kernel do not
/// depend on it, to the last bit.
enum class Schedule { InOrder, Reversed, Random };

struct LaunchOptions {
  Schedule schedule = Schedule::InOrder;
  uint64_t seed = 0;        ///< of Schedule::Random
  bool cooperative = false; ///< all blocks run interleaved, so that they may wait for each other
  unsigned threads = 0;     ///< cores to spread clusters over; 0: all. A cooperative launch takes one
  uint32_t cluster = 1;     ///< blocks of a cluster, neighbours in x, which run interleaved
  /// All launches before have ended when this one starts, as at the begin of a call: it may read what they have written
  /// before waitForDependencies().
  bool startsAfterAll = true;
  double rankPatience = 60; ///< seconds for which a thread waits for another rank before that is an error
};

/// A kernel compiled for the CPU; templates/device/emulated_entry.cuh defines the functions.
struct EmulatedKernel {
  std::string name;
  std::string source;                      ///< the file of the kernel's source, as errors name it
  std::string compiledSource;              ///< the copy of that file that was compiled, as the library names it
  std::vector<bool> isPrimitive;           ///< for each of its lines: whether it comes from templates/device/
  std::vector<int64_t> parameterBytes;     ///< size of each of its parameters
  void (*call)(void **args) = nullptr;     ///< runs it for the current thread
  EmulatedThread **(*current)() = nullptr; ///< this core's `emulatedThread`
};

/// One launch, as the schedulers of all cores see it. The objects behind its pointers outlive it.
struct EmulatedLaunch {
  const EmulatedKernel *kernel;
  TensorRanges tensors;        ///< all the global memory that the launch may touch
  const WrittenBytes &written; ///< by earlier launches of the call
  Dim3 grid;
  uint32_t blockThreads;
  size_t dynamicSharedBytes;
  void **args;
  LaunchOptions options;
};

} // namespace kiln
