//===- CudaDevice.h - a plan's kernels on an NVIDIA GPU ---------------------===//
//
// Through the CUDA runtime, linked statically; the driver is looked for when the device is opened, so that programs
// start on machines without one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Device.h"

struct CUstream_st;

namespace kiln {

class CudaDevice : public Device {
public:
  struct Options {
    int ordinal = 0;
    std::string cacheDirectory; ///< of kernels compiled because the plan has no cubins for this GPU; empty: none
  };

  /// Error: no driver, one that is too old, no such GPU.
  static Expected<std::unique_ptr<CudaDevice>> create(const Options &options);

  /// Whether there is a driver and a GPU that it can use.
  static bool isAvailable();

  ~CudaDevice() override;

  std::string name() const override;
  /// The target whose cubins it runs best: sm_90a.
  std::string target() const { return targetName; }

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
  Error synchronize() override;

private:
  explicit CudaDevice(const Options &options) : options(options) {}

  Error allowShared(const Plan &plan, const PlanLaunch &launch, ArrayRef<std::unique_ptr<DeviceKernel>> kernels);
  Expected<std::string> findCubin(const Plan &plan, const KernelFiles &files, const PlanKernel &kernel) const;

  Options options;
  std::string deviceName, targetName;
  bool supportsEarlyStart = false; ///< programmatic dependent launch
  CUstream_st *stream = nullptr;
};

} // namespace kiln
