//===- HostKernelCompiler.h - generated CUDA, compiled for the CPU ---------------------===//
//
// The source that NVRTC would get is compiled by the host's C++ compiler, with the CPU half of templates/device/.
// Libraries are cached in a directory under a hash of everything that they depend on: the compiler and its version, the
// flags, every template, and the source without its comments, with its name. A cached library that has changed since it
// was stored is compiled again.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/Launch.h"

namespace kiln {

/// The kernels of one source, loaded into the program.
class KernelLibrary {
public:
  /// Opens a library that HostKernelCompiler has built, and looks up the named kernels. `prototype` holds what all of
  /// them have in common: their source.
  static Expected<std::unique_ptr<KernelLibrary>> open(StringRef library, const EmulatedKernel &prototype,
                                                       ArrayRef<std::string> kernels);
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;
  ~KernelLibrary();

  /// The kernel of that name, which must be one that the library was compiled for.
  const EmulatedKernel &kernel(StringRef name) const;

  /// The bytes of an array in constant memory; empty if there is no such array.
  MutableArrayRef<char> constant(StringRef name) const;

private:
  explicit KernelLibrary(void *handle) : handle(handle) {}

  void *handle;
  std::map<std::string, EmulatedKernel, std::less<>> kernels;
};

class HostKernelCompiler {
public:
  struct Options {
    std::string templates; ///< the directory that has device/
    std::string cache;     ///< the directory of cached libraries; created when needed
    std::string compiler;  ///< path or name; empty: $CXX, or the first of c++, g++, clang++ on the path
    /// Checks every access to memory, including reads, so that one outside a tensor is reported at its line. Several
    /// times slower. Without it, kernels of a program built with AddressSanitizer have AddressSanitizer's checks, which
    /// end the program.
    bool checkAccesses = false;
  };

  /// Finds the compiler, reads the templates, and removes files that killed processes have left in the cache. Error: no
  /// compiler, or templates that cannot be read.
  static Expected<HostKernelCompiler> create(Options options);

  /// Compiles `source`, whose kernels are `extern "C" __global__ void NAME(...)` at file scope or in namespace kiln;
  /// `sourceName` is the file that errors name. Several processes may do so at once. Error: the compiler's messages, or
  /// a cache that cannot be written.
  Expected<std::unique_ptr<KernelLibrary>> compile(StringRef sourceName, StringRef source,
                                                   ArrayRef<std::string> kernels) const;

  /// The library that an earlier `compile` of the same source stored; null if there is none, or it is damaged. Error:
  /// it cannot be loaded.
  Expected<std::unique_ptr<KernelLibrary>> findCompiled(StringRef sourceName, StringRef source,
                                                        ArrayRef<std::string> kernels) const;

private:
  HostKernelCompiler() = default;

  /// What is compiled for a source, and where the result is stored.
  struct Entry {
    EmulatedKernel prototype;
    std::string text;
    std::string key; ///< the hash of what the library depends on
    std::string directory, library;
  };
  Entry entryOf(StringRef sourceName, StringRef source, ArrayRef<std::string> kernels) const;
  Error build(const Entry &entry) const;
  Error runCompiler(const Entry &entry, StringRef stage, StringRef library) const;

  std::string templates;
  std::string cache;
  std::string compiler;
  std::vector<std::string> flags;
  std::string environment; ///< hash of compiler, flags and templates
};

} // namespace kiln
