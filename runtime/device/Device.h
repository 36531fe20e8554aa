//===- Device.h - the interface of devices that run plans -----------------===//
//
// The operations that the executor needs of a device: memory, kernels, launches and graphs. runtime/device/emulated/
// implements them on the CPU, runtime/device/cuda/ on an NVIDIA GPU. Weight packing, the arena, the cache and
// generation belong to the executor and are the same on both. Work is ordered: it runs in the order of the calls that
// enqueue it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "plan/Plan.h"
#include "support/files/Descriptor.h"

namespace kiln {

/// A kernel that a device has loaded.
class DeviceKernel {
public:
  virtual ~DeviceKernel() = default;

  /// The size in bytes of each parameter, in order, as the compiled kernel has them; none if the device compiles it
  /// when it is launched first, and checks the arguments then.
  virtual Expected<std::optional<std::vector<int64_t>>> parameterBytes() const = 0;
};

/// Checks that a launch's arguments in the plan match the parameters of its kernel: the same number, a tensor map where
/// the kernel has 128 bytes, another address where it has 8, a dim where it has 4, and as many of them as an array has.
/// `parameterBytes` are the kernel's, `kernel` its record in the plan. Error: the first mismatch.
Error checkArguments(const PlanLaunch &launch, const PlanKernel &kernel, ArrayRef<int64_t> parameterBytes);

/// The error of Device::setConstant.
Error wrongConstant(StringRef kernel, StringRef name, int64_t bytes);

/// The memory behind an address argument of a launch.
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

/// A PlanTensorMap with every value filled in.
struct LaunchMap {
  size_t argument = 0; ///< the parameter that is this map of the tensor at the argument's address
  DType dtype = DType::F32;
  SmallVector<uint64_t, 5> extents; ///< in elements, the contiguous dimension first
  SmallVector<uint64_t, 5> strides; ///< in bytes, of all dimensions but the first
  SmallVector<uint32_t, 5> box;     ///< in elements
};

/// The bytes of a parameter that is a tensor map, on every device.
constexpr size_t tensorMapBytes = 128;

/// A launch with every value filled in: of a kernel, or of a library's matrix product.
struct KernelLaunch {
  const DeviceKernel *kernel = nullptr; ///< null for a library
  std::optional<LaunchMatmul> matmul;
  // For messages and profiles.
  const PlanStep *step = nullptr;
  const PlanLaunch *planned = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1;
  uint32_t dynamicShared = 0;
  uint32_t cluster = 1; ///< blocks of a cluster, neighbours in x; grid[0] is a multiple
  /// Whether the launch starts only when all work before it has ended; the first launch of a call must, since kernels
  /// read ahead what earlier calls have written, like positions. Any other launch may start early: its kernel waits by
  /// itself for the results of earlier launches of the same call.
  bool startsAfterAll = false;
  /// One word per argument: a device address, or an int in the low half.
  std::vector<uint64_t> arguments;
  /// The first argument of each parameter: an array takes several.
  std::vector<size_t> parameters;
  /// The arguments that the kernel takes as tensor maps, ascending, which the device makes.
  std::vector<LaunchMap> maps;
  /// All the memory that the launch may touch, for devices that check accesses.
  std::vector<LaunchTensor> tensors;
};

/// Pointers to the values of a launch's parameters, as cudaLaunchKernel takes them: in `words`, its arguments, or in
/// `maps`, which has tensorMapBytes for each of the launch's maps.
SmallVector<void *, 16> parameterPointers(const KernelLaunch &launch, MutableArrayRef<uint64_t> words, void *maps);

/// Launches of a graph that may run beside its others from number `from` on: neither reads what the other writes. The
/// graph ends when both have.
struct GraphBranch {
  size_t from = 0;
  std::vector<KernelLaunch> launches = {};
  /// Launches whose blocks have all begun before others of the other side start; they are numbered as if those of the
  /// branch came behind the others.
  std::vector<std::pair<size_t, size_t>> order = {};
};

/// The numbers of `count` launches and those of a branch in an order in which they may run one after the other: both
/// sides take turns.
std::vector<size_t> sequenceOf(size_t count, const GraphBranch &beside);

/// Launches that are run again and again; on a GPU one CUDA graph.
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;

  std::string name; ///< what it runs, for profilers
};

/// Where the kernel files of a plan are.
struct KernelFiles {
  std::string plan;       ///< the plan's directory, with kernels/NAME.cu and cubin/TARGET/NAME.cubin
  std::string edited;     ///< a directory whose NAME.cu replace the plan's; empty: none
  std::string macro = {}; ///< defined in front of all texts, so that the plan's cubins are of no use; empty: none

  bool isEdited(StringRef kernel) const {
    return !edited.empty() && llvm::sys::fs::exists(edited + "/" + kernel + ".cu");
  }
  std::string source(StringRef kernel) const {
    return ((isEdited(kernel) ? edited : plan + "/kernels") + "/" + kernel + ".cu").str();
  }
  /// The kernel's text, to be compiled. Error: the file cannot be read.
  Expected<std::string> text(StringRef kernel) const;
};

/// A mark in the uploads of Device::uploadBeside.
class DeviceEvent {
public:
  virtual ~DeviceEvent() = default;
};

/// What another process on this host needs to reach memory of a device.
struct MemoryHandle {
  std::string bytes;          ///< for devices of the same kind
  Descriptor descriptor = {}; ///< not open where these devices need none
};

class Device {
public:
  virtual ~Device() = default;

  /// The device as `--device` names it, with its model: `cuda:0 (NVIDIA H200)`.
  virtual std::string name() const = 0;
  /// The model alone: `NVIDIA H200`.
  virtual std::string model() const { return name(); }
  /// The same for two devices if they are one GPU of this host; empty if it does not matter.
  virtual std::string identity() const { return ""; }

  /// Prepares the calling thread for calls of this device: needed in a thread that has not opened it, or has used
  /// another one since.
  virtual Error makeCurrent() { return Error::success(); }

  /// Allocates `bytes` bytes, aligned to 256 and not initialized. `what` is named in errors. Error: not enough memory;
  /// it says how much was needed and how much is free.
  virtual Expected<void *> allocate(int64_t bytes, StringRef what) = 0;
  virtual void free(void *memory) = 0;

  /// Makes memory of the other device, of the same kind, accessible to kernels of this one. Error: there is no way.
  virtual Error reachMemoryOf(Device &other) = 0;

  // Memory that devices of several processes on this host reach. What one has exported must be freed after the others
  // have released it.

  /// Like allocate, of memory that can be exported.
  virtual Expected<void *> allocateShared(int64_t bytes, StringRef what) = 0;
  /// Error: the system refuses it.
  virtual Expected<MemoryHandle> exportMemory(void *shared) = 0;
  /// Makes memory that a device of the same kind has exported in another process accessible to kernels of this one, and
  /// returns its address here. `what` is named in errors. Error: there is no way.
  virtual Expected<void *> importMemory(const MemoryHandle &handle, StringRef what) = 0;
  virtual void releaseImported(void *memory) = 0;

  /// Bytes that can still be allocated.
  virtual Expected<int64_t> freeMemory() = 0;

  /// Allocates host memory from which uploads need no copy and to which kernels can write, at the same address.
  virtual Expected<void *> allocateHost(int64_t bytes, StringRef what) = 0;
  virtual void freeHost(void *memory) = 0;

  /// The caller may change `source` as soon as this returns.
  virtual Error upload(void *target, const void *source, int64_t bytes) = 0;
  virtual Error clear(void *target, int64_t bytes) = 0;
  /// Copies between two places on the device that do not overlap.
  virtual Error copy(void *target, const void *source, int64_t bytes) = 0;
  /// Waits for all work before it, then copies.
  virtual Error download(void *target, const void *source, int64_t bytes) = 0;

  // Uploads that run beside all other work, in the order of their calls. These four functions, except awaitEvent, may
  // be called from another thread than the rest.

  virtual Expected<std::unique_ptr<DeviceEvent>> makeEvent() = 0;
  /// `source` is memory of allocateHost. It must not change until an event recorded afterwards has happened.
  virtual Error uploadBeside(void *target, const void *source, int64_t bytes) = 0;
  /// The event happens when all uploads requested so far by uploadBeside have ended.
  virtual Error record(DeviceEvent &event) = 0;
  /// Returns when the event, as last recorded, has happened.
  virtual Error synchronize(DeviceEvent &event) = 0;
  /// Work that is enqueued from now on waits for the event; the caller does not wait.
  virtual Error awaitEvent(DeviceEvent &event) = 0;

  /// Loads the kernels of a plan, in the plan's order. Error: a kernel that this device cannot run, and the reason,
  /// which the emulated device finds when the kernel is first launched.
  virtual Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan,
                                                                           const KernelFiles &files) = 0;
  /// Loads the kernel once more, with constant memory of its own.
  virtual Expected<std::unique_ptr<DeviceKernel>> instantiate(const DeviceKernel &kernel) = 0;
  /// Copies from the device's memory to an array in the kernel's constant memory. The next launch must start after all
  /// work before it. Error: the kernel has no such array of that size.
  virtual Error setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) = 0;
  /// Enqueues one launch.
  virtual Error launch(const KernelLaunch &launch) = 0;

  virtual Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches,
                                                           GraphBranch beside = {}) = 0;
  /// Makes a graph run this launch in the place of the one that was at `index`, which differs in arguments and maps
  /// alone; it may not be a library's. Those of a branch come behind the others. What was enqueued before stays as it
  /// was.
  virtual Error change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) = 0;
  /// Enqueues a graph that this device made.
  virtual Error run(DeviceGraph &graph) = 0;

  /// The seconds that the device spends on what `work` enqueues, from start to end.
  virtual Expected<double> measure(function_ref<Error()> work) = 0;
  /// Whether these times say anything about the machine that the kernels are for.
  virtual bool isTimed() const { return true; }

  /// Waits for all work. Error: the failure of any of it.
  virtual Error synchronize() = 0;
  /// Whether all work has ended. Error: the failure of any of it.
  virtual Expected<bool> isIdle() = 0;
  /// How many steps to keep in flight while the host reads the result of the first.
  virtual int64_t stepsAhead() const = 0;
};

/// Memory of a device, or of its host, freed together with this object.
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
  static Expected<DeviceMemory> allocateShared(Device &device, int64_t bytes, StringRef what) {
    return own(device, device.allocateShared(bytes, what), &Device::free, bytes);
  }
  /// Of another process; `bytes` of it are accessed.
  static Expected<DeviceMemory> import(Device &device, const MemoryHandle &handle, int64_t bytes, StringRef what) {
    return own(device, device.importMemory(handle, what), &Device::releaseImported, bytes);
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
