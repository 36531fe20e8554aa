//===- Device.h - where a plan runs -----------------------------------------===//
//
// Memory, kernels, launches and graphs, as far as the executor needs them. runtime/device/emulated/ implements it on
// the CPU, runtime/device/cuda/ on an NVIDIA GPU; weight packing, the arena, the cache and generation are the
// executor's and the same on both. Work is ordered: what is enqueued runs in the order of the calls.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "plan/Plan.h"

namespace kiln {

/// A kernel that a device has loaded.
class DeviceKernel {
public:
  virtual ~DeviceKernel() = default;

  /// Of each of its parameters, in order, the size in bytes, as the compiled kernel has them.
  virtual Expected<std::vector<int64_t>> parameterBytes() const = 0;
};

/// Whether the arguments that a plan has for a launch are what its kernel takes: as many, and where the kernel has an
/// address, of 8 bytes, no dim, of 4. `parameterBytes` are the kernel's. Error: the first that is not.
Error checkArguments(const PlanLaunch &launch, ArrayRef<int64_t> parameterBytes);

/// The error of Device::setConstant.
Error wrongConstant(StringRef kernel, StringRef name, int64_t bytes);

/// What stands behind an argument of a launch that is an address.
struct LaunchTensor {
  std::string name;
  char *address = nullptr;
  int64_t bytes = 0;
  bool isWritten = false; ///< the launch may write it
  bool isFresh = false;   ///< nothing before the launch has written it
};

/// A PlanMatmul with every value filled in.
struct LaunchMatmul {
  int64_t rows = 0, cols = 0, depth = 0, batch = 1;
  bool untransposed = false;
  DType dtype = DType::F32, out = DType::F32;
  bool bias = false, gelu = false, residual = false;

  auto operator<=>(const LaunchMatmul &) const = default;
};

/// A launch with every value filled in: of a kernel, or of a library's product.
struct KernelLaunch {
  const DeviceKernel *kernel = nullptr; ///< null for a library
  std::optional<LaunchMatmul> matmul;
  // For messages and profiles.
  const PlanStep *step = nullptr;
  const PlanLaunch *planned = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1;
  uint32_t dynamicShared = 0;
  /// It starts when all work before it has ended, as the first of a call must. Any other launch may start early: its
  /// kernel waits by itself, for what the launches of the same call write.
  bool startsAfterAll = false;
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

  bool isEdited(StringRef kernel) const {
    return !edited.empty() && llvm::sys::fs::exists(edited + "/" + kernel + ".cu");
  }
  std::string source(StringRef kernel) const {
    return ((isEdited(kernel) ? edited : plan + "/kernels") + "/" + kernel + ".cu").str();
  }
};

/// A mark in the uploads of Device::uploadBeside.
class DeviceEvent {
public:
  virtual ~DeviceEvent() = default;
};

class Device {
public:
  virtual ~Device() = default;

  /// As `--device` names it, with what it is: `cuda:0 (NVIDIA H200)`.
  virtual std::string name() const = 0;
  /// What it is, wherever it is: `NVIDIA H200`.
  virtual std::string model() const { return name(); }

  /// `bytes` bytes, aligned to 256, of any contents. `what` is named in errors. Error: how much was needed and is free.
  virtual Expected<void *> allocate(int64_t bytes, StringRef what) = 0;
  virtual void free(void *memory) = 0;

  /// Bytes that can still be allocated.
  virtual Expected<int64_t> freeMemory() = 0;

  /// Host memory that uploads leave from without a copy and kernels can write to, at the same address.
  virtual Expected<void *> allocateHost(int64_t bytes, StringRef what) = 0;
  virtual void freeHost(void *memory) = 0;

  /// `source` may be changed when this returns.
  virtual Error upload(void *target, const void *source, int64_t bytes) = 0;
  virtual Error clear(void *target, int64_t bytes) = 0;
  /// Between two places on the device that do not overlap.
  virtual Error copy(void *target, const void *source, int64_t bytes) = 0;
  /// Waits for all work before it, then copies.
  virtual Error download(void *target, const void *source, int64_t bytes) = 0;

  // Uploads beside all other work, in the order of their calls. These four may be called by another thread than
  // everything else, but for awaitEvent.

  virtual Expected<std::unique_ptr<DeviceEvent>> makeEvent() = 0;
  /// `source` is memory of allocateHost, and stays as it is until an event that was recorded afterwards has happened.
  virtual Error uploadBeside(void *target, const void *source, int64_t bytes) = 0;
  /// The event happens when the uploads beside that were asked for so far have ended.
  virtual Error record(DeviceEvent &event) = 0;
  /// Returns when the event, as it was recorded last, has happened.
  virtual Error synchronize(DeviceEvent &event) = 0;
  /// Work that is enqueued from now on waits for the event; the caller does not.
  virtual Error awaitEvent(DeviceEvent &event) = 0;

  /// Loads the kernels of a plan, in the plan's order. Error: a kernel that this device cannot run, and
  /// why not.
  virtual Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan,
                                                                           const KernelFiles &files) = 0;
  /// The kernel once more, with constant memory of its own.
  virtual Expected<std::unique_ptr<DeviceKernel>> instantiate(const DeviceKernel &kernel) = 0;
  /// Copies from the device's memory to an array in the kernel's constant memory. What is launched next must start
  /// after all work before it. Error: the kernel has no such array of so many bytes.
  virtual Error setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) = 0;
  /// Enqueues one launch.
  virtual Error launch(const KernelLaunch &launch) = 0;

  virtual Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches) = 0;
  /// Enqueues a graph that this device made.
  virtual Error run(DeviceGraph &graph) = 0;

  /// Seconds that the device spends on what `work` enqueues, from its start to its end.
  virtual Expected<double> measure(function_ref<Error()> work) = 0;
  /// Whether those say anything about the machine that the kernels are for.
  virtual bool isTimed() const { return true; }

  /// Waits for all work. Error: what went wrong in it.
  virtual Error synchronize() = 0;
  /// Whether all work has ended. Error: what went wrong in it.
  virtual Expected<bool> isIdle() = 0;
  /// How many steps are worth having under way while the host reads the first one's result.
  virtual int64_t stepsAhead() const = 0;
};

/// Memory of a device, or of its host, with an owner.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (memory)
      (device->*release)(memory);
  }

  static Expected<DeviceMemory> allocate(Device &device, int64_t bytes, StringRef what) {
    return own(device, device.allocate(bytes, what), &Device::free, bytes);
  }
  static Expected<DeviceMemory> allocateHost(Device &device, int64_t bytes, StringRef what) {
    return own(device, device.allocateHost(bytes, what), &Device::freeHost, bytes);
  }

  char *address() const { return static_cast<char *>(memory); }
  int64_t bytes() const { return byteCount; }

private:
  using Release = void (Device::*)(void *);

  static Expected<DeviceMemory> own(Device &device, Expected<void *> address, Release release, int64_t bytes) {
    if (!address)
      return address.takeError();
    DeviceMemory memory;
    memory.device = &device;
    memory.memory = *address;
    memory.release = release;
    memory.byteCount = bytes;
    return memory;
  }

  void swap(DeviceMemory &other) {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    std::swap(release, other.release);
    std::swap(byteCount, other.byteCount);
  }

  Device *device = nullptr;
  void *memory = nullptr;
  Release release = nullptr;
  int64_t byteCount = 0;
};

} // namespace kiln
