#include "runtime/cuda/CudaDevice.h"

#include "nvrtc/CubinCompiler.h"
#include "runtime/cuda/Compatibility.h"
#include "support/Diagnostic.h"
#include "support/File.h"

#include <cuda_runtime_api.h>

namespace kiln {

namespace {

struct CudaKernel : DeviceKernel {
  ~CudaKernel() override {
    if (library)
      cudaLibraryUnload(library);
  }
  std::string name;
  std::shared_ptr<const std::string> cubin; ///< must outlive the library
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  int64_t dynamicShared = 0; ///< what it was allowed beyond what every kernel may have
};

struct CudaGraph : DeviceGraph {
  ~CudaGraph() override {
    if (executable)
      cudaGraphExecDestroy(executable);
  }
  cudaGraphExec_t executable = nullptr;
};

struct CudaEvent : DeviceEvent {
  ~CudaEvent() override {
    if (event)
      cudaEventDestroy(event);
  }
  cudaEvent_t event = nullptr;
};

Error check(cudaError_t status, const Twine &what) {
  if (status == cudaSuccess)
    return Error::success();
  return makeError("CUDA: " + what + ": " + cudaGetErrorString(status));
}

Expected<std::unique_ptr<CudaKernel>> loadKernel(StringRef name, std::shared_ptr<const std::string> cubin) {
  auto loaded = std::make_unique<CudaKernel>();
  loaded->name = name.str();
  loaded->cubin = std::move(cubin);
  cudaError_t status =
      cudaLibraryLoadData(&loaded->library, loaded->cubin->data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (Error error = check(status, "loading kernel " + name))
    return error;
  if (Error error =
          check(cudaLibraryGetKernel(&loaded->kernel, loaded->library, loaded->name.c_str()), "finding kernel " + name))
    return error;
  return loaded;
}

/// sm_90a for compute capability 9.0: the names that plans and NVRTC use.
std::string targetOf(int major, int minor) {
  std::string number = std::to_string(major) + std::to_string(minor);
  return "sm_" + number + (number == "90" ? "a" : "");
}

} // namespace

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

bool CudaDevice::isAvailable() {
  int count = 0;
  bool isThere = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError(); // what was found wrong is no error of a later call
  return isThere;
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
    return isClear ? std::move(error) : llvm::joinErrors(std::move(error), check(counted, "looking for GPUs"));
  }

  std::unique_ptr<CudaDevice> device(new CudaDevice(options));
  cudaDeviceProp properties;
  if (Error error = check(cudaSetDevice(options.ordinal), "opening the GPU"))
    return error;
  if (Error error = check(cudaGetDeviceProperties(&properties, options.ordinal), "reading the GPU's properties"))
    return error;
  device->deviceName = properties.name;
  device->targetName = targetOf(properties.major, properties.minor);
  device->supportsEarlyStart = properties.major >= 9;
  for (cudaStream_t *stream : {&device->stream, &device->copyStream})
    if (Error error = check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "creating a stream"))
      return error;
  return device;
}

CudaDevice::~CudaDevice() {
  if (copyStream)
    cudaStreamDestroy(copyStream);
  if (stream)
    cudaStreamDestroy(stream);
}

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
  return check(status, "allocating " + what);
}

void CudaDevice::free(void *memory) { cudaFree(memory); }

Expected<int64_t> CudaDevice::freeMemory() {
  size_t available = 0, all = 0;
  if (Error error = check(cudaMemGetInfo(&available, &all), "asking for free memory"))
    return error;
  return static_cast<int64_t>(available);
}

Expected<void *> CudaDevice::allocateHost(int64_t bytes, StringRef what) {
  void *memory = nullptr;
  // With unified addressing, which every GPU since 2010 has, the GPU uses the same address.
  if (Error error = check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
                          "allocating " + Twine(bytes) + " bytes of page-locked memory for " + what))
    return error;
  return memory;
}

void CudaDevice::freeHost(void *memory) { cudaFreeHost(memory); }

Error CudaDevice::upload(void *target, const void *source, int64_t bytes) {
  return check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream), "upload");
}

Error CudaDevice::clear(void *target, int64_t bytes) {
  return check(cudaMemsetAsync(target, 0, bytes, stream), "clearing memory");
}

Error CudaDevice::copy(void *target, const void *source, int64_t bytes) {
  return check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
}

Error CudaDevice::download(void *target, const void *source, int64_t bytes) {
  if (Error error = check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream), "download"))
    return error;
  return synchronize();
}

//===----------------------------------------------------------------------===//
// Uploads beside other work
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<DeviceEvent>> CudaDevice::makeEvent() {
  auto event = std::make_unique<CudaEvent>();
  // A thread that makes an event has its own idea of the current GPU.
  if (Error error = check(cudaSetDevice(options.ordinal), "choosing the GPU"))
    return error;
  if (Error error = check(cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming), "creating an event"))
    return error;
  return event;
}

Error CudaDevice::uploadBeside(void *target, const void *source, int64_t bytes) {
  if (Error error = check(cudaSetDevice(options.ordinal), "choosing the GPU"))
    return error;
  return check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, copyStream), "upload");
}

Error CudaDevice::record(DeviceEvent &event) {
  return check(cudaEventRecord(static_cast<CudaEvent &>(event).event, copyStream), "recording an event");
}

Error CudaDevice::synchronize(DeviceEvent &event) {
  return check(cudaEventSynchronize(static_cast<CudaEvent &>(event).event), "waiting for an upload");
}

Error CudaDevice::awaitEvent(DeviceEvent &event) {
  return check(cudaStreamWaitEvent(stream, static_cast<CudaEvent &>(event).event, 0), "waiting for an upload");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

Expected<std::vector<std::string>> CudaDevice::readCubins(const Plan &plan, const KernelFiles &files) const {
  std::optional<std::string> target = cubinTargetFor(targetName, plan.cubins);
  std::vector<std::string> cubins(plan.kernels.size());
  std::vector<size_t> missing;
  for (const auto &[i, kernel] : llvm::enumerate(plan.kernels)) {
    if (!target || files.isEdited(kernel.name)) {
      missing.push_back(i);
      continue;
    }
    Expected<std::string> cubin = readFile(files.plan + "/cubin/" + *target + "/" + kernel.name + ".cubin");
    if (!cubin)
      return cubin.takeError();
    cubins[i] = std::move(*cubin);
  }
  if (missing.empty())
    return cubins;
  std::string has = plan.cubins.empty() ? "no cubins" : "cubins for " + llvm::join(plan.cubins, ", ") + " only";
  std::string why = target ? "edited" : "the plan has " + has;
  if (Error error = compileKernels(plan, files, missing, why, cubins))
    return error;
  return cubins;
}

/// Those of the plan's kernels, compiled for this GPU on all cores.
Error CudaDevice::compileKernels(const Plan &plan, const KernelFiles &files, ArrayRef<size_t> wanted, StringRef why,
                                 MutableArrayRef<std::string> cubins) const {
  Expected<CubinCompiler> compiler = CubinCompiler::create(options.cacheDirectory);
  if (!compiler)
    return llvm::joinErrors(makeError(files.plan + ": " + why + ", expected cubins for " + targetName +
                                      ", this GPU's target; compile the model with --target " + targetName),
                            compiler.takeError());
  if (options.note)
    options.note((why + ": compiling " + Twine(wanted.size()) + " kernels for " + targetName +
                  (options.cacheDirectory.empty() ? "" : ", to be kept in " + options.cacheDirectory))
                     .str());
  std::vector<std::optional<std::vector<Diagnostic>>> failures(wanted.size());
  llvm::parallelFor(0, wanted.size(), [&](size_t i) {
    const std::string &name = plan.kernels[wanted[i]].name;
    Expected<std::string> source = readFile(files.source(name));
    auto compiled = source ? compiler->compile(name, *source, targetName) : source.takeError();
    if (compiled)
      cubins[wanted[i]] = std::move(compiled->cubin);
    else
      failures[i] = takeDiagnostics(compiled.takeError());
  });
  for (auto &failure : failures)
    if (failure)
      return llvm::joinErrors(makeError(files.plan + ": the plan was made for " + plan.target +
                                        ", and a kernel does not compile for " + targetName +
                                        ", this GPU's target; compile the model with --target " + targetName),
                              llvm::make_error<DiagnosticError>(std::move(*failure)));
  return Error::success();
}

Error CudaDevice::allowShared(const Plan &plan, const PlanLaunch &launch,
                              ArrayRef<std::unique_ptr<DeviceKernel>> kernels) {
  const PlanKernel *kernel = plan.findKernel(launch.kernel);
  if (!kernel)
    return Error::success(); // a library's step
  return allowShared(*kernels[kernel - plan.kernels.data()], launch.dynamicShared);
}

/// Beyond 48 KB of dynamic shared memory a kernel must be allowed to.
Error CudaDevice::allowShared(DeviceKernel &kernel, int64_t bytes) const {
  auto &own = static_cast<CudaKernel &>(kernel);
  if (bytes <= 48 * 1024)
    return Error::success();
  own.dynamicShared = bytes;
  cudaError_t status = cudaKernelSetAttributeForDevice(own.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(bytes), options.ordinal);
  return check(status, own.name + " needs " + Twine(bytes) + " bytes of shared memory");
}

static bool usesLibrary(const Plan &plan) {
  return llvm::any_of(plan.functions, [](const PlanFunction &function) {
    return llvm::any_of(function.steps, [](const PlanStep &step) { return step.matmul.has_value(); });
  });
}

Expected<std::vector<std::unique_ptr<DeviceKernel>>> CudaDevice::loadKernels(const Plan &plan,
                                                                             const KernelFiles &files) {
  if (usesLibrary(plan) && !cublasLt) {
    auto opened = CublasLt::create();
    if (!opened)
      return opened.takeError();
    cublasLt = std::move(*opened);
  }
  Expected<std::vector<std::string>> cubins = readCubins(plan, files);
  if (!cubins)
    return cubins.takeError();
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  for (auto [kernel, cubin] : llvm::zip(plan.kernels, *cubins)) {
    auto loaded = loadKernel(kernel.name, std::make_shared<const std::string>(std::move(cubin)));
    if (!loaded)
      return loaded.takeError();
    kernels.push_back(std::move(*loaded));
  }
  for (const PlanFunction &function : plan.functions)
    for (const PlanStep &step : function.steps)
      for (const PlanLaunch *launch : step.launches())
        if (Error error = allowShared(plan, *launch, kernels))
          return error;
  return kernels;
}

Expected<std::unique_ptr<DeviceKernel>> CudaDevice::instantiate(const DeviceKernel &kernel) {
  const auto &own = static_cast<const CudaKernel &>(kernel);
  auto loaded = loadKernel(own.name, own.cubin);
  if (!loaded)
    return loaded.takeError();
  if (Error error = allowShared(**loaded, own.dynamicShared))
    return error;
  return std::move(*loaded);
}

Error CudaDevice::setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) {
  auto &own = static_cast<CudaKernel &>(kernel);
  void *address = nullptr;
  size_t size = 0;
  cudaError_t status = cudaLibraryGetGlobal(&address, &size, own.library, name.str().c_str());
  if (status == cudaErrorSymbolNotFound || (status == cudaSuccess && size != static_cast<size_t>(bytes))) {
    cudaGetLastError(); // not that of a later call
    return wrongConstant(own.name, name, bytes);
  }
  if (Error error = check(status, "finding " + name + " of kernel " + own.name))
    return error;
  return copy(address, source, bytes);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Error CudaDevice::launch(const KernelLaunch &launch) {
  if (launch.matmul)
    return cublasLt->run(launch, stream);
  std::vector<uint64_t> words = launch.arguments;
  std::vector<void *> pointers;
  for (uint64_t &word : words)
    pointers.push_back(&word);
  // Generated kernels wait for the one before them themselves (templates/device/grid.cuh), so they may start early.
  cudaLaunchAttribute mayStartEarly = {};
  mayStartEarly.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  mayStartEarly.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.dynamicShared;
  config.stream = stream;
  // Blocks that wait for each other must all be resident, which the ones of the kernel in front could prevent.
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  bool isCooperative = launch.planned->cooperative;
  config.attrs = isCooperative ? &cooperative : &mayStartEarly;
  config.numAttrs = isCooperative || (supportsEarlyStart && !launch.startsAfterAll) ? 1 : 0;
  cudaKernel_t kernel = static_cast<const CudaKernel *>(launch.kernel)->kernel;
  return check(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(kernel), pointers.data()),
               "launching " + launch.planned->kernel);
}

Expected<std::unique_ptr<DeviceGraph>> CudaDevice::makeGraph(std::vector<KernelLaunch> launches) {
  if (Error error = check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph"))
    return error;
  Error failure = Error::success();
  for (const KernelLaunch &one : launches)
    if (!failure)
      failure = launch(one);
  cudaGraph_t captured = nullptr;
  Error ended = check(cudaStreamEndCapture(stream, &captured), "capturing a graph");
  if (Error error = llvm::joinErrors(std::move(failure), std::move(ended)))
    return error;
  auto graph = std::make_unique<CudaGraph>();
  cudaError_t status = cudaGraphInstantiate(&graph->executable, captured, 0);
  cudaGraphDestroy(captured);
  if (Error error = check(status, "instantiating a graph"))
    return error;
  return graph;
}

Error CudaDevice::run(DeviceGraph &graph) {
  return check(cudaGraphLaunch(static_cast<CudaGraph &>(graph).executable, stream), "launching a graph");
}

Expected<double> CudaDevice::measure(function_ref<Error()> work) {
  cudaEvent_t start = nullptr, stop = nullptr;
  auto destroy = llvm::make_scope_exit([&] {
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
  });
  if (Error error = check(cudaEventCreate(&start), "creating an event"))
    return error;
  if (Error error = check(cudaEventCreate(&stop), "creating an event"))
    return error;
  if (Error error = check(cudaEventRecord(start, stream), "recording an event"))
    return error;
  if (Error error = work())
    return error;
  if (Error error = check(cudaEventRecord(stop, stream), "recording an event"))
    return error;
  if (Error error = synchronize())
    return error;
  float milliseconds = 0;
  if (Error error = check(cudaEventElapsedTime(&milliseconds, start, stop), "reading events"))
    return error;
  return milliseconds * 1e-3;
}

Error CudaDevice::synchronize() { return check(cudaStreamSynchronize(stream), "running kernels"); }

Expected<bool> CudaDevice::isIdle() {
  cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady)
    return false;
  if (Error error = check(status, "running kernels"))
    return error;
  return true;
}

} // namespace kiln
