//===- CudaDevice.h - a plan's kernels on an NVIDIA GPU ---------------------===//
//
// Uses the CUDA runtime, linked statically. The driver is looked for when the device is opened, so that programs start
// on machines without one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/TensorMaps.h"

struct CUgraphNode_st; // what cudaGraphNode_t points to

namespace kiln {

class CudaDevice : public Device {
public:
  struct Options {
    int ordinal = 0;
    std::string
        cacheDirectory; ///< for kernels that are compiled because the plan has no cubins for this GPU; empty: none
    /// Called with a message when kernels must be compiled at run time, which takes long and can be avoided.
    std::function<void(StringRef)> note;
  };

  /// Error: no driver, a driver that is too old, no such GPU.
  static Expected<std::unique_ptr<CudaDevice>> create(const Options &options);

  /// The number of GPUs that the driver can use; 0 without a driver.
  static int count();
  static bool isAvailable() { return count() > 0; }
  /// The multiprocessors of a GPU, without opening it; 0 if there is no such GPU.
  static int multiprocessors(int ordinal);

  ~CudaDevice() override;

  std::string name() const override;
  std::string model() const override { return deviceName; }
  std::string identity() const override { return uuid; }
  /// The target whose cubins run best on this GPU: sm_90a.
  std::string target() const { return targetName; }

  Error makeCurrent() override;
  Expected<void *> allocate(int64_t bytes, StringRef what) override;
  void free(void *memory) override;
  Error reachMemoryOf(Device &other) override;
  Expected<void *> allocateShared(int64_t bytes, StringRef what) override { return allocate(bytes, what); }
  Expected<MemoryHandle> exportMemory(void *shared) override;
  Expected<void *> importMemory(const MemoryHandle &handle, StringRef what) override;
  void releaseImported(void *memory) override;
  Expected<int64_t> freeMemory() override;
  Expected<void *> allocateHost(int64_t bytes, StringRef what) override;
  void freeHost(void *memory) override;
  Error upload(void *target, const void *source, int64_t bytes) override;
  Error clear(void *target, int64_t bytes) override;
  Error copy(void *target, const void *source, int64_t bytes) override;
  Error download(void *target, const void *source, int64_t bytes) override;
  Expected<std::unique_ptr<DeviceEvent>> makeEvent() override;
  Error uploadBeside(void *target, const void *source, int64_t bytes) override;
  Error record(DeviceEvent &event) override;
  Error synchronize(DeviceEvent &event) override;
  Error awaitEvent(DeviceEvent &event) override;
  Expected<std::vector<std::unique_ptr<DeviceKernel>>> loadKernels(const Plan &plan, const KernelFiles &files) override;
  Expected<std::unique_ptr<DeviceKernel>> instantiate(const DeviceKernel &kernel) override;
  Error setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) override;
  Error launch(const KernelLaunch &launch) override;
  Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches,
                                                   GraphBranch beside = {}) override;
  Error change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) override;
  Error run(DeviceGraph &graph) override;
  Expected<double> measure(function_ref<Error()> work) override;
  Error synchronize() override;
  Expected<bool> isIdle() override;
  int64_t stepsAhead() const override { return 8; }

private:
  explicit CudaDevice(const Options &options) : options(options) {}

  // CudaLaunches.cpp
  struct Parameters;
  Expected<Parameters> parametersOf(const KernelLaunch &launch);
  Error launchOn(CUstream_st *stream, const KernelLaunch &launch);
  Error follow(CUstream_st *stream, CUstream_st *other);
  using GraphNodes = std::vector<CUgraphNode_st *>; ///< one of each launch
  Error captureLaunches(ArrayRef<KernelLaunch> launches, const GraphBranch &beside, GraphNodes &nodes);

  Options options;
  std::string deviceName, targetName, uuid;
  std::map<void *, void *> imports;        ///< the start of another process's allocation, by the address in it
  std::unique_ptr<CublasLt> cublasLt;      ///< opened for the first plan that needs it
  std::optional<TensorMapEncoder> encoder; ///< made for the first launch that needs it
  CUstream_st *stream = nullptr;           ///< all work except the uploads beside it
  CUstream_st *branchStream = nullptr;     ///< where branches of graphs are captured
  CUstream_st *copyStream = nullptr;       ///< the uploads beside other work
};

} // namespace kiln
