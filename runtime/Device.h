//===- Device.h - where a plan runs -----------------------------------------===//
//
// Memory, kernels, launches and graphs, as far as the executor needs them. runtime/emulated/ implements it on the CPU,
// runtime/cuda/ on an NVIDIA GPU; weight packing, the arena, the cache and generation are the executor's and the same
// on both. Work is ordered: what is enqueued runs in the order of the calls.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "plan/Plan.h"

namespace kiln {

/// A kernel that a device has loaded.
class DeviceKernel {
public:
  virtual ~DeviceKernel() = default;
};

/// What stands behind an argument of a launch that is an address.
struct LaunchTensor {
  std::string name;
  char *address = nullptr;
  int64_t bytes = 0;
  bool isWritten = false; ///< the launch may write it
  bool isFresh = false;   ///< nothing before the launch has written it
};

/// A launch with every value filled in.
struct KernelLaunch {
  const DeviceKernel *kernel = nullptr;
  // For messages and profiles.
  const PlanStep *step = nullptr;
  const PlanLaunch *planned = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1;
  uint32_t dynamicShared = 0;
  /// One word an argument: a device address, or an int in the low half.
  std::vector<uint64_t> arguments;
  /// All the memory that it may touch, for devices that check.
  std::vector<LaunchTensor> tensors;
};

/// Launches that are run again and again; on a GPU one CUDA graph.
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;
};

/// Where the files of a plan's kernels are.
struct KernelFiles {
  std::string plan;   ///< the plan's directory, with kernels/NAME.cu and cubin/TARGET/NAME.cubin
  std::string edited; ///< a directory whose NAME.cu are run in their place; empty: none

  bool isEdited(StringRef kernel) const { return !edited.empty() && llvm::sys::fs::exists(edited + "/" + kernel + ".cu"); }
  std::string source(StringRef kernel) const {
    return ((isEdited(kernel) ? edited : plan + "/kernels") + "/" + kernel + ".cu").str();
  }
};

class Device {
public:
  virtual ~Device() = default;

  /// As `--device` names it, with what it is: `cuda:0 (NVIDIA H200)`.
  virtual std::string name() const = 0;

  /// `bytes` bytes, aligned to 256, of any contents. `what` is named in errors. Error: how much was needed and is free.
  virtual Expected<void *> allocate(int64_t bytes, StringRef what) = 0;
  virtual void free(void *memory) = 0;

  virtual Error upload(void *target, const void *source, int64_t bytes) = 0;
  virtual Error clear(void *target, int64_t bytes) = 0;
  /// Waits for all work before it, then copies.
  virtual Error download(void *target, const void *source, int64_t bytes) = 0;

  /// Loads the kernels of a plan, in the plan's order. Error: a kernel that this device cannot run, and why not.
  virtual Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan,
                                                                         const KernelFiles &files) = 0;
  /// Enqueues one launch.
  virtual Error launch(const KernelLaunch &launch) = 0;

  virtual Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches) = 0;
  /// Enqueues a graph that this device made.
  virtual Error run(DeviceGraph &graph) = 0;

  /// Seconds that the device spends on what `work` enqueues, from its start to its end.
  virtual Expected<double> measure(function_ref<Error()> work) = 0;

  /// Waits for all work. Error: what went wrong in it.
  virtual Error synchronize() = 0;
};

/// Device memory with an owner.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(Device &device, void *address, int64_t bytes) : device(&device), memory(address), byteCount(bytes) {}
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (memory)
      device->free(memory);
  }

  static Expected<DeviceMemory> allocate(Device &device, int64_t bytes, StringRef what) {
    Expected<void *> address = device.allocate(bytes, what);
    if (!address)
      return address.takeError();
    return DeviceMemory(device, *address, bytes);
  }

  char *address() const { return static_cast<char *>(memory); }
  int64_t bytes() const { return byteCount; }

private:
  void swap(DeviceMemory &other) {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    std::swap(byteCount, other.byteCount);
  }

  Device *device = nullptr;
  void *memory = nullptr;
  int64_t byteCount = 0;
};

} // namespace kiln
