//===- EmulatedDevice.h - a plan's generated kernels on the CPU -------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/emulated/Launcher.h"
#include "runtime/device/emulated/compile/LazyKernel.h"

namespace kiln {

/// Compiles kernels with the host's compiler, those of a call on all cores when it is first made, and runs every launch
/// at once, thread by thread.
class EmulatedDevice : public Device {
public:
  struct Options {
    std::string cacheDirectory; ///< of compiled kernels; must not be empty
    LaunchOptions launch;       ///< schedule of blocks and threads
    bool checkAccesses = true;  ///< report wrong accesses to memory at their lines; several times slower
    int64_t stepsAhead = 1;     ///< how many steps work is enqueued ahead; more than 1 is for tests
    CompileProgress progress;
    /// Compile all kernels when they are loaded, not when they are launched first. For ranks in other processes: those
    /// would wait in their calls for one that compiles.
    bool compilesAhead = false;
  };

  /// Error: no host compiler, or a cache that cannot be written.
  static Expected<std::unique_ptr<EmulatedDevice>> create(const Options &options);

  std::string name() const override { return "emulate"; }

  Expected<void *> allocate(int64_t bytes, StringRef what) override;
  void free(void *memory) override;
  Error reachMemoryOf(Device &) override { return Error::success(); }
  Expected<void *> allocateShared(int64_t bytes, StringRef what) override;
  Expected<MemoryHandle> exportMemory(void *shared) override;
  Expected<void *> importMemory(const MemoryHandle &handle, StringRef what) override;
  void releaseImported(void *address) override { memory.releaseImported(address); }
  /// The system's memory that programs can use; a larger number if the system does not report it.
  Expected<int64_t> freeMemory() override;
  Expected<void *> allocateHost(int64_t bytes, StringRef what) override { return allocate(bytes, what); }
  void freeHost(void *memory) override { free(memory); }
  Error upload(void *target, const void *source, int64_t bytes) override;
  Error clear(void *target, int64_t bytes) override;
  Error copy(void *target, const void *source, int64_t bytes) override;
  Error download(void *target, const void *source, int64_t bytes) override;
  Expected<std::unique_ptr<DeviceEvent>> makeEvent() override { return std::make_unique<DeviceEvent>(); }
  Error uploadBeside(void *target, const void *source, int64_t bytes) override { return upload(target, source, bytes); }
  Error record(DeviceEvent &) override { return Error::success(); }
  Error synchronize(DeviceEvent &) override { return Error::success(); }
  Error awaitEvent(DeviceEvent &) override { return Error::success(); }
  Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan, const KernelFiles &files) override;
  Expected<std::unique_ptr<DeviceKernel>> instantiate(const DeviceKernel &kernel) override;
  Error setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) override;
  Error launch(const KernelLaunch &launch) override;
  Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches,
                                                   GraphBranch beside = {}) override;
  Error change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) override;
  Error run(DeviceGraph &graph) override;
  Expected<double> measure(function_ref<Error()> work) override;
  bool isTimed() const override { return false; }
  Error synchronize() override { return Error::success(); }
  Expected<bool> isIdle() override { return true; }
  int64_t stepsAhead() const override { return options.stepsAhead; }

private:
  EmulatedDevice(HostKernelCompiler compiler, const Options &options)
      : compiler(std::move(compiler)), launcher(&memory), options(options) {}

  /// Compiles the kernels of launches that are not compiled yet, and checks the arguments of all.
  Error compile(ArrayRef<KernelLaunch> launches);
  /// Runs a launch whose kernel is compiled.
  Error runNow(const KernelLaunch &launch);

  HostKernelCompiler compiler;
  EmulatedMemory memory;
  EmulatedLauncher launcher;
  Options options;
};

} // namespace kiln
