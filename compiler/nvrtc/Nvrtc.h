//===- Nvrtc.h - NVIDIA's run-time compiler ---------------------------------===//
#pragma once

#include "plan/Plan.h"
#include "support/EmbeddedFile.h"

namespace kiln {

/// What comes of compiling one source for one target.
struct CompiledKernel {
  std::string cubin;
  std::string ptx;
  KernelResources resources; ///< of the source's one kernel
};

/// What NVRTC is told besides the source. It has a cache of its own, of which nothing is logged; CubinCompiler's is
/// enough.
std::vector<std::string> nvrtcOptions(StringRef target);

/// libnvrtc, loaded when it is first needed, so that programs start on machines without it.
class Nvrtc {
public:
  /// Error: the library is not found (the message says where it was looked for) or too old.
  static Expected<const Nvrtc *> get();

  /// `13.0`
  std::string version() const;

  /// Compiles the text of a .cu, named `name` in line information. `#include`s are served from `headers`.
  /// Error: what the compiler says, with its positions in the source.
  Expected<CompiledKernel> compile(StringRef name, StringRef source, StringRef target,
                                   ArrayRef<EmbeddedFile> headers) const;

private:
  struct Api;
  explicit Nvrtc(const Api &api) : api(api) {}
  static Expected<const Nvrtc *> load();

  const Api &api;
};

/// Registers, shared memory and spills from the log of `--ptxas-options=-v`.
KernelResources parsePtxasLog(StringRef log);

} // namespace kiln
