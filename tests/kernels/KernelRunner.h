//===- KernelRunner.h - the device that runs the kernels of these tests ---===//
//
// The tests say what to launch on which arrays; the arrays are memory of the host. EmulatedRunner.cpp runs kernels on
// the CPU, on that memory; tests/gpu/GpuRunner.cpp on a GPU, on copies of it. A program links one of the two.
//
//===----------------------------------------------------------------------===//
#pragma once

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
  std::string source; ///< the whole text of it
  std::string kernel;
  Dim3 grid;
  uint32_t threads = 1;
  uint32_t dynamicShared = 0; ///< bytes
  std::vector<KernelArgument> arguments;
};

class KernelRunner {
public:
  virtual ~KernelRunner() = default;

  /// How many ways there are to run a kernel that must all give the same bits.
  virtual size_t wayCount() const = 0;

  /// Runs a kernel once; its arrays hold then what it has written. Error: what the compiler says of it, or a misdeed.
  virtual Error launch(const TestLaunch &launch, size_t way) = 0;
};

/// This program's runner; arrays may be pieces of `memory`, which is checked where it can be. Error: no GPU, no
/// compiler.
Expected<std::unique_ptr<KernelRunner>> makeKernelRunner(EmulatedMemory &memory);

/// How many random shapes the tests add to each of their cases: $KILN_RANDOM_SHAPES, else what this program has time
/// for.
int randomShapeCount();

} // namespace kiln
