// Memory of a GPU that kernels of other processes on this host reach, by CUDA's interprocess communication.
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/CudaKernel.h"
#include "support/Diagnostic.h"

#include <cuda.h>

#include <cstring>

namespace kiln {

namespace {

/// What a MemoryHandle of a GPU has.
struct CudaMemoryHandle {
  cudaIpcMemHandle_t allocation;
  uint64_t offset = 0; ///< of the memory in it: a handle stands for a whole allocation of the driver
};

/// The start of the driver's allocation that has this address: cudaMalloc makes small pieces of larger ones.
Expected<char *> allocationOf(void *address) {
  void *function = nullptr;
  if (Error error = findDriverFunction("cuMemGetAddressRange", "ranks that are processes").moveInto(function))
    return error;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUresult result = reinterpret_cast<decltype(&cuMemGetAddressRange)>(function)(&start, &bytes,
                                                                                reinterpret_cast<CUdeviceptr>(address));
  // The runtime's errors have the numbers of the driver's.
  if (Error error = checkCuda(static_cast<cudaError_t>(result), "finding an allocation"))
    return error;
  return reinterpret_cast<char *>(start);
}

} // namespace

Expected<MemoryHandle> CudaDevice::exportMemory(void *shared) {
  Expected<char *> start = allocationOf(shared);
  if (!start)
    return start.takeError();
  CudaMemoryHandle handle;
  handle.offset = static_cast<uint64_t>(static_cast<char *>(shared) - *start);
  if (Error error = checkCuda(cudaIpcGetMemHandle(&handle.allocation, shared), "sharing memory with other processes"))
    return error;
  return MemoryHandle{std::string(reinterpret_cast<const char *>(&handle), sizeof(handle))};
}

Expected<void *> CudaDevice::importMemory(const MemoryHandle &exported, StringRef what) {
  CudaMemoryHandle handle;
  if (exported.bytes.size() != sizeof(handle))
    return makeError(what + ": expected memory of a GPU, got that of another device");
  std::memcpy(&handle, exported.bytes.data(), sizeof(handle));
  void *start = nullptr;
  if (Error error =
          checkCuda(cudaIpcOpenMemHandle(&start, handle.allocation, cudaIpcMemLazyEnablePeerAccess),
                    "reaching the " + what + " of another process from " + name() + ", by NVLink or PCIe peer access"))
    return error;
  void *memory = static_cast<char *>(start) + handle.offset;
  imports[memory] = start;
  return memory;
}

void CudaDevice::releaseImported(void *memory) {
  auto found = imports.find(memory);
  cudaIpcCloseMemHandle(found->second);
  imports.erase(found);
}

} // namespace kiln
