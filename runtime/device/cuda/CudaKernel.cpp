#include "runtime/device/cuda/CudaKernel.h"

#include "support/Diagnostic.h"

namespace kiln {

Error checkCuda(cudaError_t status, const Twine &what) {
  if (status == cudaSuccess)
    return Error::success();
  return makeError("CUDA: " + what + ": " + cudaGetErrorString(status));
}

Expected<void *> findDriverFunction(const char *name, StringRef users) {
  constexpr unsigned version = 12000;
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
  if (Error error = checkCuda(status, "looking for " + Twine(name) + " in the driver"))
    return error;
  if (found != cudaDriverEntryPointSuccess || !function)
    return makeError("CUDA: expected a driver with " + Twine(name) + ", which " + users +
                     " need; install that of CUDA 12 or later");
  return function;
}

Expected<std::unique_ptr<CudaKernel>> CudaKernel::load(StringRef name, std::shared_ptr<const KernelCode> code) {
  auto loaded = std::make_unique<CudaKernel>();
  loaded->name = name.str();
  loaded->code = std::move(code);
  cudaError_t status =
      cudaLibraryLoadData(&loaded->library, loaded->code->bytes.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  const bool isPtx = isPtxTarget(loaded->code->target);
  const std::string what = isPtx ? "PTX for " + loaded->code->target + " of kernel " : "kernel ";
  if (Error error = checkCuda(status, "loading " + what + name))
    return isPtx ? llvm::joinErrors(std::move(error),
                                    makeError("the driver must be as new as the CUDA toolkit that compiled the PTX; "
                                              "update the driver, or compile the model with this GPU as --target"))
                 : std::move(error);
  status = cudaLibraryGetKernel(&loaded->kernel, loaded->library, loaded->name.c_str());
  if (Error error = checkCuda(status, "finding kernel " + name))
    return error;
  return loaded;
}

CudaKernel::~CudaKernel() {
  if (library)
    cudaLibraryUnload(library);
}

Expected<std::unique_ptr<CudaKernel>> CudaKernel::instantiate(int ordinal) const {
  auto loaded = load(name, code);
  if (!loaded)
    return loaded.takeError();
  if (Error error = (*loaded)->allowShared(dynamicShared, ordinal))
    return error;
  return loaded;
}

Expected<std::optional<std::vector<int64_t>>> CudaKernel::parameterBytes() const {
  std::vector<int64_t> sizes;
  for (;;) {
    size_t offset = 0, bytes = 0;
    cudaError_t status = cudaFuncGetParamInfo(reinterpret_cast<const void *>(kernel), sizes.size(), &offset, &bytes);
    // No call returns the number of parameters: an index past the last one is an invalid value.
    if (status == cudaErrorInvalidValue) {
      cudaGetLastError(); // clears the error, so that no later call reports it
      return sizes;
    }
    if (Error error = checkCuda(status, "reading the parameters of kernel " + name))
      return error;
    sizes.push_back(static_cast<int64_t>(bytes));
  }
}

Error CudaKernel::allowShared(int64_t bytes, int ordinal) {
  // Up to 48 KB come without asking, but what the kernel's code declares counts, too.
  if (bytes == 0)
    return Error::success();
  dynamicShared = bytes;
  cudaError_t status = cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(bytes), ordinal);
  return checkCuda(status, name + " needs " + Twine(bytes) + " bytes of shared memory");
}

Expected<int64_t> CudaKernel::residentClusters(uint32_t cluster, uint32_t threads, int64_t shared) const {
  if (cluster == 1)
    return residentBlocks(threads, shared);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(cluster);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  cudaError_t status = cudaOccupancyMaxActiveClusters(&clusters, reinterpret_cast<const void *>(kernel), &config);
  if (Error error = checkCuda(status, "counting the clusters of kernel " + name + " that run at once"))
    return error;
  return clusters;
}

Expected<int64_t> CudaKernel::residentBlocks(uint32_t threads, int64_t shared) const {
  int device = 0, multiprocessors = 0, blocks = 0;
  for (cudaError_t status :
       {cudaGetDevice(&device), cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<const void *>(kernel),
                                                      static_cast<int>(threads), static_cast<size_t>(shared))})
    if (Error error = checkCuda(status, "counting the blocks of kernel " + name + " that run at once"))
      return error;
  return int64_t(multiprocessors) * blocks;
}

Expected<void *> CudaKernel::findConstant(StringRef constant, int64_t bytes) {
  void *address = nullptr;
  size_t size = 0;
  cudaError_t status = cudaLibraryGetGlobal(&address, &size, library, constant.str().c_str());
  if (status == cudaErrorSymbolNotFound || (status == cudaSuccess && size != static_cast<size_t>(bytes))) {
    cudaGetLastError(); // clears the error, so that no later call reports it
    return wrongConstant(name, constant, bytes);
  }
  if (Error error = checkCuda(status, "finding " + constant + " of kernel " + name))
    return error;
  return address;
}

} // namespace kiln
