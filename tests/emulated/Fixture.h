//===- Fixture.h - kernels of this folder, compiled for the CPU ------------------===//
#pragma once

#include "runtime/device/emulated/Launcher.h"
#include "runtime/device/emulated/compile/HostKernelCompiler.h"
#include "support/Diagnostic.h"

#include <gtest/gtest.h>

namespace kiln {

/// A compiler with the project's templates, and a cache that the tests' runs share.
HostKernelCompiler testCompiler(bool checkAccesses = false);

/// The text of kernels/NAME.cu.
std::string kernelText(StringRef name);

/// `NAME.cu:LINE: ` for the line of kernels/NAME.cu that ends in `// here: MARK`.
std::string placeIn(StringRef name, StringRef mark);
/// The start of an error of that line, of block (0,0,0) of a kernel.
std::string errorIn(StringRef name, StringRef mark, StringRef kernel);

/// kernels/NAME.cu compiled, with every kernel in it; compiled once per program.
const KernelLibrary &kernelLibrary(StringRef name, bool checkAccesses = false);

/// The diagnostics of an error, printed.
std::string printed(Error error);

/// Launches kernels on buffers that look like device memory.
class EmulatedTest : public testing::Test {
protected:
  /// A buffer on the emulated device.
  template <class T> struct Buffer {
    T *data;
    size_t size;

    T &operator[](size_t i) const { return data[i]; }
    std::vector<T> copy() const { return std::vector<T>(data, data + size); }
  };

  template <class T> Buffer<T> buffer(size_t size, StringRef name = "buffer") {
    return {static_cast<T *>(llvm::cantFail(memory.allocate(size * sizeof(T), name))), size};
  }
  template <class T> Buffer<T> bufferOf(const std::vector<T> &values) {
    Buffer<T> result = buffer<T>(values.size());
    std::copy(values.begin(), values.end(), result.data);
    return result;
  }

  /// Launches on buffers and numbers.
  template <class... Args>
  Error launch(const EmulatedKernel &kernel, Dim3 grid, uint32_t block, const LaunchOptions &options,
               const Args &...args) {
    return launcher.launch(kernel, grid, {block}, dynamicBytes, {argument(args)...}, options);
  }

  /// Runs `check` with each schedule in turn, on several cores and on one.
  void forEachSchedule(function_ref<void(const LaunchOptions &)> check);

  EmulatedMemory memory;
  EmulatedLauncher launcher{&memory};
  size_t dynamicBytes = 0;

private:
  template <class T> static void *argument(const Buffer<T> &buffer) { return const_cast<T **>(&buffer.data); }
  template <class T> static void *argument(const T &number) { return const_cast<T *>(&number); }
};

} // namespace kiln
