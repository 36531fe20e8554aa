//===- Nvrtc.h - NVIDIA's run-time compiler ---------------------------------===//
#pragma once

#include "plan/Plan.h"
#include "support/files/EmbeddedFile.h"

namespace kiln {

/// The result of compiling one source for one target.
struct CompiledKernel {
  std::string cubin; ///< empty for a virtual architecture
  std::string ptx;
  KernelResources resources; ///< of the source's one kernel; zeros for a virtual architecture
};

/// The options of NVRTC. They disable its own cache, of which nothing is logged: CubinCompiler's suffices.
std::vector<std::string> nvrtcOptions(StringRef target);

/// libnvrtc, loaded when it is first needed, so that programs start on machines without it.
class Nvrtc {
public:
  /// Error: the library cannot be loaded (the message says where it was looked for), or is too old.
  static Expected<const Nvrtc *> get();

  /// `13.0`
  std::string version() const;

  /// Compiles the text of a .cu, named /kiln/`name` in line information. `#include`s are served from `headers`.
  /// Error: what the compiler says, with its positions in the source. Where it crashes, for want of memory, the program
  /// ends with a message.
  Expected<CompiledKernel> compile(StringRef name, StringRef source, StringRef target,
                                   ArrayRef<EmbeddedFile> headers) const;

private:
  struct Api;
  explicit Nvrtc(const Api &api) : api(api) {}
  static const Nvrtc *load(std::string &reason);

  const Api &api;
};

/// Registers, shared memory and spills from the log of `--ptxas-options=-v`.
KernelResources parsePtxasLog(StringRef log);

} // namespace kiln
