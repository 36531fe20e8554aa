//===- CubinCompiler.h - compiling cubins and PTX through a cache ---------===//
#pragma once

#include "nvrtc/Nvrtc.h"

namespace kiln {

/// Compiles generated sources against the program's own templates and keeps the results by the hash of everything that
/// goes in: the compiler's and NVRTC's versions, every template, the target and the source. Several processes may share
/// a cache: entries are written whole or not at all, and one that was damaged since is made again.
class CubinCompiler {
public:
  /// `cacheDirectory`: made if it is missing; empty: no cache. Error: no NVRTC, or as openCache.
  static Expected<CubinCompiler> create(StringRef cacheDirectory);

  /// The result of an earlier compilation, if the cache has it.
  std::optional<CompiledKernel> find(StringRef source, StringRef target) const;

  /// `name` is the kernel's; the source appears in line information as kernels/NAME.cu. The PTX is empty when the
  /// cubin comes from the cache, but for a virtual architecture, which has PTX alone. Error: what NVRTC says of the
  /// source.
  Expected<CompiledKernel> compile(StringRef name, StringRef source, StringRef target) const;

  std::string nvrtcVersion() const { return nvrtc->version(); }

private:
  CubinCompiler(const Nvrtc &nvrtc, StringRef cacheDirectory);

  std::string keyOf(StringRef source, StringRef target) const;
  std::string pathOf(StringRef key) const { return cacheDirectory + "/" + key.str() + ".cubin"; }
  /// The cache's entry.
  std::optional<CompiledKernel> read(StringRef key, StringRef target) const;
  Expected<CompiledKernel> compileAnew(StringRef name, StringRef source, StringRef target) const;

  const Nvrtc *nvrtc;
  std::string cacheDirectory;
  std::string commonHash; ///< of what is the same for all kernels
};

} // namespace kiln
