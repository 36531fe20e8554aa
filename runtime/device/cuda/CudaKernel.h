//===- CudaKernel.h - a kernel on an NVIDIA GPU -------------------------------===//
#pragma once

#include "runtime/device/cuda/Cubins.h"

#include "support/model/TargetName.h"

#include <cuda_runtime_api.h>

namespace kiln {

/// The error of a failed call of the CUDA runtime.
Error checkCuda(cudaError_t status, const Twine &what);

/// The address of a function of the driver, which is not linked: programs start without one. `users`: who needs it, for
/// the error. Error: the driver is older than CUDA 12.
Expected<void *> findDriverFunction(const char *name, StringRef users);

/// Loaded code, and the kernel of its name in it.
class CudaKernel : public DeviceKernel {
public:
  /// Error: the code is not for this GPU, is PTX that the driver cannot compile, or has no such kernel.
  static Expected<std::unique_ptr<CudaKernel>> load(StringRef name, std::shared_ptr<const KernelCode> code);
  ~CudaKernel() override;

  /// Loads the code once more, with constants of its own. Error: not enough memory.
  Expected<std::unique_ptr<CudaKernel>> instantiate(int ordinal) const;

  Expected<std::optional<std::vector<int64_t>>> parameterBytes() const override;

  /// Allows the kernel that much dynamic shared memory on a GPU. Error: more than the GPU has.
  Error allowShared(int64_t bytes, int ordinal);

  /// The clusters of so many blocks, or the blocks, that the current GPU runs at once.
  Expected<int64_t> residentClusters(uint32_t cluster, uint32_t threads, int64_t dynamicShared) const;

  /// The address of a constant of the kernel's source. Error: it has none of that name and size.
  Expected<void *> findConstant(StringRef constant, int64_t bytes);

  /// Whether the kernel waits by itself for the results of earlier kernels, so that it may start before they have
  /// ended.
  bool mayStartEarly() const { return computeCapability(code->target) >= earlyStartCapability; }

  cudaKernel_t handle() const { return kernel; }

private:
  Expected<int64_t> residentBlocks(uint32_t threads, int64_t dynamicShared) const;

  std::string name;
  std::shared_ptr<const KernelCode> code; ///< must outlive the library
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  int64_t dynamicShared = 0; ///< the bytes allowed so far beyond the default limit
};

} // namespace kiln
