#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/device/cuda/Compatibility.h"
#include "runtime/device/cuda/Cubins.h"
#include "runtime/device/cuda/CudaEvent.h"
#include "runtime/device/cuda/CudaKernel.h"
#include "support/Diagnostic.h"

namespace kiln {

/// The target's name in plans and for NVRTC, like sm_90a for compute capability 9.0.
static std::string targetOf(int major, int minor) {
  std::string number = std::to_string(major) + std::to_string(minor);
  return "sm_" + number + (number == "90" ? "a" : "");
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

int CudaDevice::count() {
  int count = 0;
  bool isKnown = cudaGetDeviceCount(&count) == cudaSuccess;
  cudaGetLastError(); // clears the error, so that no later call reports it
  return isKnown ? count : 0;
}

int CudaDevice::multiprocessors(int ordinal) {
  int number = 0;
  const bool isKnown = cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, ordinal) == cudaSuccess;
  cudaGetLastError(); // as above
  return isKnown ? number : 0;
}

Expected<std::unique_ptr<CudaDevice>> CudaDevice::create(const Options &options) {
  CudaMachine machine;
  cudaDriverGetVersion(&machine.driverVersion);
  cudaRuntimeGetVersion(&machine.runtimeVersion);
  cudaError_t counted = cudaGetDeviceCount(&machine.gpuCount);
  if (counted != cudaSuccess)
    machine.gpuCount = 0;
  if (Error error = checkMachine(machine, options.ordinal)) {
    bool isClear = counted == cudaSuccess || counted == cudaErrorNoDevice || counted == cudaErrorInsufficientDriver;
    return isClear ? std::move(error) : llvm::joinErrors(std::move(error), checkCuda(counted, "looking for GPUs"));
  }

  std::unique_ptr<CudaDevice> device(new CudaDevice(options));
  cudaDeviceProp properties;
  if (Error error = checkCuda(cudaSetDevice(options.ordinal), "opening the GPU"))
    return error;
  if (Error error = checkCuda(cudaGetDeviceProperties(&properties, options.ordinal), "reading the GPU's properties"))
    return error;
  device->deviceName = properties.name;
  device->uuid.assign(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  device->targetName = targetOf(properties.major, properties.minor);
  for (cudaStream_t *stream : {&device->stream, &device->branchStream, &device->copyStream})
    if (Error error = checkCuda(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "creating a stream"))
      return error;
  return device;
}

CudaDevice::~CudaDevice() {
  for (cudaStream_t one : {copyStream, branchStream, stream})
    if (one)
      cudaStreamDestroy(one);
}

Error CudaDevice::makeCurrent() { return checkCuda(cudaSetDevice(options.ordinal), "choosing the GPU"); }

std::string CudaDevice::name() const { return "cuda:" + std::to_string(options.ordinal) + " (" + deviceName + ")"; }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Expected<void *> CudaDevice::allocate(int64_t bytes, StringRef what) {
  void *memory = nullptr;
  cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaSuccess)
    return memory;
  cudaGetLastError();
  size_t available = 0, all = 0;
  cudaMemGetInfo(&available, &all);
  auto megabytes = [](size_t count) { return formatv("{0:F1} MB", static_cast<double>(count) / 1e6).str(); };
  if (status == cudaErrorMemoryAllocation)
    return makeError("out of memory on " + name() + ": " + what + " needs " + megabytes(bytes) + ", free are " +
                     megabytes(available) + " of " + megabytes(all) + "; use a smaller batch, context or dtype");
  return checkCuda(status, "allocating " + what);
}

void CudaDevice::free(void *memory) { cudaFree(memory); }

Error CudaDevice::reachMemoryOf(Device &other) {
  const int peer = static_cast<CudaDevice &>(other).options.ordinal;
  int canReach = 0;
  if (Error error = checkCuda(cudaDeviceCanAccessPeer(&canReach, options.ordinal, peer), "looking for a link of GPUs"))
    return error;
  if (!canReach)
    return makeError(name() + " cannot access the memory of " + other.name() +
                     ": there is neither NVLink nor PCIe peer access between them");
  if (Error error = makeCurrent())
    return error;
  cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return Error::success();
  }
  return checkCuda(status, "linking GPUs");
}

Expected<int64_t> CudaDevice::freeMemory() {
  size_t available = 0, all = 0;
  if (Error error = checkCuda(cudaMemGetInfo(&available, &all), "asking for free memory"))
    return error;
  return static_cast<int64_t>(available);
}

Expected<void *> CudaDevice::allocateHost(int64_t bytes, StringRef what) {
  void *memory = nullptr;
  // With unified addressing, which every GPU since 2010 has, the address is valid on the GPU as well.
  if (Error error = checkCuda(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
                              "allocating " + Twine(bytes) + " bytes of page-locked memory for " + what))
    return error;
  return memory;
}

void CudaDevice::freeHost(void *memory) { cudaFreeHost(memory); }

Error CudaDevice::upload(void *target, const void *source, int64_t bytes) {
  return checkCuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream), "upload");
}

Error CudaDevice::clear(void *target, int64_t bytes) {
  return checkCuda(cudaMemsetAsync(target, 0, bytes, stream), "clearing memory");
}

Error CudaDevice::copy(void *target, const void *source, int64_t bytes) {
  return checkCuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
}

Error CudaDevice::download(void *target, const void *source, int64_t bytes) {
  if (Error error = checkCuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream), "download"))
    return error;
  return synchronize();
}

//===----------------------------------------------------------------------===//
// Uploads beside other work
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<DeviceEvent>> CudaDevice::makeEvent() {
  auto event = std::make_unique<CudaEvent>();
  // Each thread has its own current GPU.
  if (Error error = makeCurrent())
    return error;
  if (Error error = checkCuda(cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming), "creating an event"))
    return error;
  return event;
}

Error CudaDevice::uploadBeside(void *target, const void *source, int64_t bytes) {
  if (Error error = makeCurrent())
    return error;
  return checkCuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, copyStream), "upload");
}

Error CudaDevice::record(DeviceEvent &event) {
  return checkCuda(cudaEventRecord(static_cast<CudaEvent &>(event).event, copyStream), "recording an event");
}

Error CudaDevice::synchronize(DeviceEvent &event) {
  return checkCuda(cudaEventSynchronize(static_cast<CudaEvent &>(event).event), "waiting for an upload");
}

Error CudaDevice::awaitEvent(DeviceEvent &event) {
  return checkCuda(cudaStreamWaitEvent(stream, static_cast<CudaEvent &>(event).event, 0), "waiting for an upload");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static bool usesLibrary(const Plan &plan) {
  return llvm::any_of(plan.functions, [](const PlanFunction &function) {
    return llvm::any_of(function.steps, [](const PlanStep &step) { return step.matmul.has_value(); });
  });
}

/// The most dynamic shared memory of any launch of the kernel, in bytes.
static int64_t mostDynamicShared(const Plan &plan, StringRef kernel) {
  int64_t most = 0;
  for (const PlanFunction &function : plan.functions)
    for (const PlanStep &step : function.steps)
      for (const PlanLaunch *launch : step.launches())
        if (launch->kernel == kernel)
          most = std::max(most, launch->dynamicShared);
  return most;
}

/// Checks that all blocks of a launch run at once, if they wait for each other or for other ranks. Without clusters,
/// the driver counts those that wait for each other by itself.
static Error checkResident(const PlanStep &step, const PlanLaunch &launch, const PlanKernel &record,
                           const CudaKernel &kernel) {
  std::optional<int64_t> blocks = launch.grid[0].asConstant();
  const bool waits = step.inbox != 0 || (launch.cooperative && record.cluster > 1);
  if (launch.kernel != record.name || !waits || !blocks)
    return Error::success();
  Expected<int64_t> resident = kernel.residentClusters(static_cast<uint32_t>(record.cluster),
                                                       static_cast<uint32_t>(launch.threads), launch.dynamicShared);
  if (!resident)
    return resident.takeError();
  const int64_t wanted = *blocks / record.cluster;
  if (wanted <= *resident)
    return Error::success();
  const std::string advice = launch.cooperative
                                 ? "; compile with --strategy decode=persistent{clusters=" + std::to_string(*resident) +
                                       "}, or without --decode persistent"
                                 : "";
  const std::string units =
      record.cluster == 1 ? "blocks" : "clusters of " + std::to_string(record.cluster) + " blocks";
  return makeError("kernel " + record.name + ": expected a GPU that runs " + Twine(wanted) + " " + units +
                   " at once, got one that runs " + Twine(*resident) + advice);
}

Expected<std::vector<std::unique_ptr<DeviceKernel>>> CudaDevice::loadKernels(const Plan &plan,
                                                                             const KernelFiles &files) {
  if (usesLibrary(plan) && !cublasLt) {
    auto opened = CublasLt::create();
    if (!opened)
      return opened.takeError();
    cublasLt = std::move(*opened);
  }
  Expected<std::vector<KernelCode>> codes =
      readCubins(plan, files, {targetName, deviceName, options.cacheDirectory, options.note});
  if (!codes)
    return codes.takeError();
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  for (auto [kernel, code] : llvm::zip(plan.kernels, *codes)) {
    auto loaded = CudaKernel::load(kernel.name, std::make_shared<const KernelCode>(std::move(code)));
    if (!loaded)
      return loaded.takeError();
    if (Error error = (*loaded)->allowShared(mostDynamicShared(plan, kernel.name), options.ordinal))
      return error;
    for (const PlanFunction &function : plan.functions)
      for (const PlanStep &step : function.steps)
        for (const PlanLaunch *launch : step.launches())
          if (Error error = checkResident(step, *launch, kernel, **loaded))
            return error;
    kernels.push_back(std::move(*loaded));
  }
  return kernels;
}

Expected<std::unique_ptr<DeviceKernel>> CudaDevice::instantiate(const DeviceKernel &kernel) {
  return static_cast<const CudaKernel &>(kernel).instantiate(options.ordinal);
}

Error CudaDevice::setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) {
  Expected<void *> address = static_cast<CudaKernel &>(kernel).findConstant(name, bytes);
  if (!address)
    return address.takeError();
  return copy(*address, source, bytes);
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

Expected<double> CudaDevice::measure(function_ref<Error()> work) {
  cudaEvent_t start = nullptr, stop = nullptr;
  auto destroy = llvm::make_scope_exit([&] {
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
  });
  if (Error error = checkCuda(cudaEventCreate(&start), "creating an event"))
    return error;
  if (Error error = checkCuda(cudaEventCreate(&stop), "creating an event"))
    return error;
  if (Error error = checkCuda(cudaEventRecord(start, stream), "recording an event"))
    return error;
  if (Error error = work())
    return error;
  if (Error error = checkCuda(cudaEventRecord(stop, stream), "recording an event"))
    return error;
  if (Error error = synchronize())
    return error;
  float milliseconds = 0;
  if (Error error = checkCuda(cudaEventElapsedTime(&milliseconds, start, stop), "reading events"))
    return error;
  return milliseconds * 1e-3;
}

Error CudaDevice::synchronize() { return checkCuda(cudaStreamSynchronize(stream), "running kernels"); }

Expected<bool> CudaDevice::isIdle() {
  cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady)
    return false;
  if (Error error = checkCuda(status, "running kernels"))
    return error;
  return true;
}

} // namespace kiln
