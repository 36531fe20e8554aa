//===- CountingDevice.h - a device that counts calls ----------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "support/Diagnostic.h"

#include <atomic>

namespace kiln {

/// Passes every call on to a device, and counts it. Refuses what a GPU refuses: launches of a thread that uses another
/// device, and changes of what a library has launched in a graph.
class CountingDevice : public Device {
public:
  explicit CountingDevice(Device &device) : device(device) {}

  struct Counts {
    int allocations = 0, frees = 0, uploads = 0, copies = 0, downloads = 0, launches = 0, graphs = 0, changes = 0,
        runs = 0, waits = 0;
    bool operator==(const Counts &) const = default;
  };
  Counts counts;
  std::optional<int64_t> memoryLeft; ///< if set, replaces the device's answer
  std::string refused;               ///< the purpose of memory that cannot be allocated
  int64_t ahead = 1;
  std::atomic<bool> hasLaunched = false; ///< a kernel or a graph
  std::function<Error()> onUploadBeside = [] { return Error::success(); };
  std::function<Error()> onLaunch = [] { return Error::success(); };
  std::function<Error()> onRun = [] { return Error::success(); };

  std::string name() const override { return "test"; }
  Error makeCurrent() override {
    current = this;
    return device.makeCurrent();
  }
  Expected<void *> allocate(int64_t bytes, StringRef what) override {
    if (what == refused)
      return makeError("out of memory on test: " + what);
    ++counts.allocations;
    return device.allocate(bytes, what);
  }
  void free(void *memory) override {
    ++counts.frees;
    device.free(memory);
  }
  Error reachMemoryOf(Device &other) override {
    return device.reachMemoryOf(static_cast<CountingDevice &>(other).device);
  }
  Expected<void *> allocateShared(int64_t bytes, StringRef what) override {
    ++counts.allocations;
    return device.allocateShared(bytes, what);
  }
  Expected<MemoryHandle> exportMemory(void *shared) override { return device.exportMemory(shared); }
  Expected<void *> importMemory(const MemoryHandle &handle, StringRef what) override {
    return device.importMemory(handle, what);
  }
  void releaseImported(void *memory) override { device.releaseImported(memory); }
  Expected<int64_t> freeMemory() override { return memoryLeft ? Expected<int64_t>(*memoryLeft) : device.freeMemory(); }
  Expected<void *> allocateHost(int64_t bytes, StringRef what) override {
    ++counts.allocations;
    return device.allocateHost(bytes, what);
  }
  void freeHost(void *memory) override {
    ++counts.frees;
    device.freeHost(memory);
  }
  Error upload(void *target, const void *source, int64_t bytes) override {
    ++counts.uploads;
    return device.upload(target, source, bytes);
  }
  Error clear(void *target, int64_t bytes) override { return device.clear(target, bytes); }
  Error copy(void *target, const void *source, int64_t bytes) override {
    ++counts.copies;
    return device.copy(target, source, bytes);
  }
  Error download(void *target, const void *source, int64_t bytes) override {
    ++counts.downloads;
    return device.download(target, source, bytes);
  }
  Expected<std::unique_ptr<DeviceEvent>> makeEvent() override { return device.makeEvent(); }
  Error uploadBeside(void *target, const void *source, int64_t bytes) override {
    if (Error error = onUploadBeside())
      return error;
    return device.uploadBeside(target, source, bytes);
  }
  Error record(DeviceEvent &event) override { return device.record(event); }
  Error synchronize(DeviceEvent &event) override { return device.synchronize(event); }
  Error awaitEvent(DeviceEvent &event) override { return device.awaitEvent(event); }
  Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan,
                                                                   const KernelFiles &files) override {
    return device.loadKernels(plan, files);
  }
  Expected<std::unique_ptr<DeviceKernel>> instantiate(const DeviceKernel &kernel) override {
    return device.instantiate(kernel);
  }
  Error setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) override {
    if (Error error = checkCurrent())
      return error;
    return device.setConstant(kernel, name, source, bytes);
  }
  Error launch(const KernelLaunch &launch) override {
    ++counts.launches;
    hasLaunched = true;
    if (Error error = checkCurrent())
      return error;
    if (Error error = onLaunch())
      return error;
    return device.launch(launch);
  }
  Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches, GraphBranch beside) override {
    ++counts.graphs;
    return device.makeGraph(std::move(launches), std::move(beside));
  }
  Error change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) override {
    ++counts.changes;
    if (launch.matmul)
      return makeError("a library's launches cannot be changed");
    return device.change(graph, index, launch);
  }
  Error run(DeviceGraph &graph) override {
    ++counts.runs;
    hasLaunched = true;
    if (Error error = checkCurrent())
      return error;
    if (Error error = onRun())
      return error;
    return device.run(graph);
  }
  Expected<double> measure(function_ref<Error()> work) override { return device.measure(work); }
  Error synchronize() override {
    ++counts.waits;
    return device.synchronize();
  }
  Expected<bool> isIdle() override { return device.isIdle(); }
  int64_t stepsAhead() const override { return ahead; }

private:
  Error checkCurrent() const {
    return current == this ? Error::success() : makeError("the thread uses another device");
  }

  static inline thread_local const CountingDevice *current = nullptr;
  Device &device;
};

} // namespace kiln
