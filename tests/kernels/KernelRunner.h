//===- KernelRunner.h - the device that runs the kernels of these tests ---===//
//
// The tests state which kernel to launch on which arrays; the arrays are in host memory. EmulatedRunner.cpp runs
// kernels on the CPU, on that memory; tests/gpu/GpuRunner.cpp runs them on a GPU, on copies. A program links one of the
// two.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/emulated/Launch.h"

namespace kiln {

/// An array, or the number that `data` points to.
struct KernelArgument {
  void *data = nullptr;
  size_t bytes = 0;
  bool isArray = false;
};

struct TestLaunch {
  std::string file;   ///< NAME.cu, for messages
  std::string source; ///< its whole text
  std::string kernel;
  Dim3 grid;
  uint32_t threads = 1;
  uint32_t dynamicShared = 0; ///< bytes
  std::vector<KernelArgument> arguments;
  std::vector<LaunchMap> maps = {}; ///< the arrays among the arguments that the kernel takes as tensor maps
  uint32_t cluster = 1;             ///< blocks of a cluster, neighbours in x
  bool cooperative = false;         ///< emulated blocks run interleaved, and wait for each other
};

class KernelRunner {
public:
  virtual ~KernelRunner() = default;

  /// The GPU whose instructions kernels may use: sm_90a.
  virtual std::string target() const = 0;

  /// The number of ways to run a kernel; all of them must give the same bits.
  virtual size_t wayCount() const = 0;

  /// Runs a kernel once, and leaves its results in the arrays. Error: the compiler's message, or a violation by the
  /// kernel.
  virtual Error launch(const TestLaunch &launch, size_t way) = 0;
};

/// This program's runner. Arrays may be parts of `memory`, which is checked if possible. Error: no GPU, no compiler.
Expected<std::unique_ptr<KernelRunner>> makeKernelRunner(EmulatedMemory &memory);

/// How much of its magnitude a sum of `depth` products by tensor cores may be off.
double sumTolerance(int depth);

/// The number of random shapes that tests add to each of their cases: $KILN_RANDOM_SHAPES, else as many as this program
/// has time for.
int randomShapeCount();

} // namespace kiln
