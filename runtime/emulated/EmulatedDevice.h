//===- EmulatedDevice.h - a plan's generated kernels on the CPU -------------===//
#pragma once

#include "runtime/Device.h"
#include "runtime/emulated/HostKernelCompiler.h"
#include "runtime/emulated/Launcher.h"

namespace kiln {

/// Compiles kernels with the host's compiler, on all cores, and runs every launch at once,
/// thread by thread.
class EmulatedDevice : public Device {
public:
  struct Options {
    std::string cacheDirectory; ///< of compiled kernels; must not be empty
    LaunchOptions launch;       ///< schedule of blocks and threads
    bool checkAccesses = true;  ///< report wrong accesses to memory at their lines; several times slower
  };

  /// Error: no host compiler, or a cache that cannot be written.
  static Expected<std::unique_ptr<EmulatedDevice>> create(const Options &options);

  std::string name() const override { return "emulate"; }

  Expected<void *> allocate(int64_t bytes, StringRef what) override;
  void free(void *memory) override;
  Error upload(void *target, const void *source, int64_t bytes) override;
  Error clear(void *target, int64_t bytes) override;
  Error download(void *target, const void *source, int64_t bytes) override;
  Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan, const KernelFiles &files) override;
  Error launch(const KernelLaunch &launch) override;
  Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches) override;
  Error run(DeviceGraph &graph) override;
  Expected<double> measure(function_ref<Error()> work) override;
  Error synchronize() override { return Error::success(); }

private:
  EmulatedDevice(HostKernelCompiler compiler, LaunchOptions options)
      : compiler(std::move(compiler)), launcher(&memory), options(options) {}

  HostKernelCompiler compiler;
  EmulatedMemory memory;
  EmulatedLauncher launcher;
  LaunchOptions options;
};

} // namespace kiln
