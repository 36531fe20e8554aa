#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/device/cuda/Compatibility.h"
#include "runtime/device/cuda/Cubins.h"
#include "runtime/device/cuda/CudaKernel.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

struct CudaGraph : DeviceGraph {
  ~CudaGraph() override {
    if (executable)
      cudaGraphExecDestroy(executable);
    if (captured)
      cudaGraphDestroy(captured);
  }
  cudaGraph_t captured = nullptr;     ///< what the executable graph was made of
  std::vector<cudaGraphNode_t> nodes; ///< of `captured`: the last one of each launch
  cudaGraphExec_t executable = nullptr;
};

struct CudaEvent : DeviceEvent {
  ~CudaEvent() override {
    if (event)
      cudaEventDestroy(event);
  }
  cudaEvent_t event = nullptr;
};

/// The target's name in plans and for NVRTC, like sm_90a for compute capability 9.0.
std::string targetOf(int major, int minor) {
  std::string number = std::to_string(major) + std::to_string(minor);
  return "sm_" + number + (number == "90" ? "a" : "");
}

} // namespace

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

int CudaDevice::count() {
  int count = 0;
  bool isKnown = cudaGetDeviceCount(&count) == cudaSuccess;
  cudaGetLastError(); // clears the error, so that no later call reports it
  return isKnown ? count : 0;
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

/// Checks that all clusters of a launch run at once, if its blocks wait for each other. The driver counts blocks alone.
static Error checkResident(const PlanLaunch &launch, const PlanKernel &record, const CudaKernel &kernel) {
  std::optional<int64_t> blocks = launch.grid[0].asConstant();
  if (launch.kernel != record.name || !launch.cooperative || record.cluster == 1 || !blocks)
    return Error::success();
  Expected<int64_t> resident = kernel.residentClusters(static_cast<uint32_t>(record.cluster),
                                                       static_cast<uint32_t>(launch.threads), launch.dynamicShared);
  if (!resident)
    return resident.takeError();
  const int64_t wanted = *blocks / record.cluster;
  if (wanted <= *resident)
    return Error::success();
  return makeError("kernel " + record.name + ": expected a GPU that runs " + Twine(wanted) + " clusters of " +
                   Twine(record.cluster) + " blocks at once, got one that runs " + Twine(*resident) +
                   "; compile with --strategy decode=persistent{clusters=" + Twine(*resident) +
                   "}, or without --decode persistent");
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
          if (Error error = checkResident(*launch, kernel, **loaded))
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
// Launches
//===----------------------------------------------------------------------===//

Expected<std::vector<EncodedTensorMap>> CudaDevice::encodeMaps(const KernelLaunch &launch) {
  if (launch.maps.empty())
    return std::vector<EncodedTensorMap>();
  if (!encoder) {
    auto made = TensorMapEncoder::create();
    if (!made)
      return made.takeError();
    encoder = *made;
  }
  return encoder->encode(launch);
}

using LaunchAttributes = SmallVector<cudaLaunchAttribute, 2>;

static LaunchAttributes attributesOf(const KernelLaunch &launch, const CudaKernel &kernel) {
  LaunchAttributes attributes;
  auto add = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue & {
    cudaLaunchAttribute &attribute = attributes.emplace_back();
    attribute.id = id;
    return attribute.val;
  };
  // Blocks that wait for each other must all be resident at once, which blocks of the previous kernel could prevent.
  // Other kernels wait for the previous one themselves (templates/device/grid.cuh), so they may start early.
  if (launch.planned->cooperative)
    add(cudaLaunchAttributeCooperative).cooperative = 1;
  else if (kernel.mayStartEarly() && !launch.startsAfterAll)
    add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
  // The kernel's own __cluster_dims__ say the same, unless somebody has edited it.
  if (launch.cluster > 1)
    add(cudaLaunchAttributeClusterDimension).clusterDim = {launch.cluster, 1, 1};
  return attributes;
}

Error CudaDevice::launch(const KernelLaunch &launch) { return launchOn(stream, launch); }

Error CudaDevice::launchOn(CUstream_st *stream, const KernelLaunch &launch) {
  if (launch.matmul)
    return cublasLt->run(launch, stream);
  Expected<std::vector<EncodedTensorMap>> maps = encodeMaps(launch);
  if (!maps)
    return maps.takeError();
  std::vector<uint64_t> words = launch.arguments;
  SmallVector<void *, 16> pointers = parameterPointers(launch, words, maps->data());
  const auto &kernel = static_cast<const CudaKernel &>(*launch.kernel);
  LaunchAttributes attributes = attributesOf(launch, kernel);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.dynamicShared;
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return checkCuda(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(kernel.handle()), pointers.data()),
                   "launching " + launch.planned->kernel);
}

/// Makes what comes next in a stream wait for what there is in the other.
Error CudaDevice::follow(CUstream_st *stream, CUstream_st *other) {
  Expected<std::unique_ptr<DeviceEvent>> made = makeEvent();
  if (!made)
    return made.takeError();
  cudaEvent_t event = static_cast<CudaEvent &>(**made).event;
  if (Error error = checkCuda(cudaEventRecord(event, other), "recording an event"))
    return error;
  return checkCuda(cudaStreamWaitEvent(stream, event, 0), "waiting for an event");
}

/// The node that a stream captured last.
static Expected<cudaGraphNode_t> lastCaptured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t *last = nullptr;
  size_t count = 0;
  if (Error error = checkCuda(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr, &count),
                              "capturing a graph"))
    return error;
  assert(count == 1 && "a launch is the last node of its stream");
  return *last;
}

Error CudaDevice::captureLaunches(ArrayRef<KernelLaunch> launches, const GraphBranch &beside, GraphNodes &nodes) {
  auto launchAll = [&](CUstream_st *on, ArrayRef<KernelLaunch> some) -> Error {
    for (const KernelLaunch &one : some) {
      if (Error error = launchOn(on, one))
        return error;
      if (Error error = lastCaptured(on).moveInto(nodes.emplace_back()))
        return error;
    }
    return Error::success();
  };
  if (beside.launches.empty())
    return launchAll(stream, launches);
  assert(beside.launches.front().startsAfterAll && "a branch begins with a call");
  if (Error error = launchAll(stream, launches.take_front(beside.from)))
    return error;
  if (Error error = follow(branchStream, stream))
    return error;
  if (Error error = launchAll(stream, launches.drop_front(beside.from)))
    return error;
  if (Error error = launchAll(branchStream, beside.launches))
    return error;
  return follow(stream, branchStream);
}

Expected<std::unique_ptr<DeviceGraph>> CudaDevice::makeGraph(std::vector<KernelLaunch> launches, GraphBranch beside) {
  if (Error error = checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph"))
    return error;
  auto graph = std::make_unique<CudaGraph>();
  Error failure = captureLaunches(launches, beside, graph->nodes);
  Error ended = checkCuda(cudaStreamEndCapture(stream, &graph->captured), "capturing a graph");
  if (Error error = llvm::joinErrors(std::move(failure), std::move(ended)))
    return error;
  if (Error error = checkCuda(cudaGraphInstantiate(&graph->executable, graph->captured, 0), "instantiating a graph"))
    return error;
  return graph;
}

Error CudaDevice::change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) {
  assert(!launch.matmul && "a library's nodes cannot be changed");
  Expected<std::vector<EncodedTensorMap>> maps = encodeMaps(launch);
  if (!maps)
    return maps.takeError();
  std::vector<uint64_t> words = launch.arguments;
  SmallVector<void *, 16> pointers = parameterPointers(launch, words, maps->data());
  cudaKernelNodeParams node = {};
  node.func = static_cast<const CudaKernel &>(*launch.kernel).handle();
  node.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  node.blockDim = dim3(launch.threads);
  node.sharedMemBytes = launch.dynamicShared;
  node.kernelParams = pointers.data();
  auto &changed = static_cast<CudaGraph &>(graph);
  return checkCuda(cudaGraphExecKernelNodeSetParams(changed.executable, changed.nodes[index], &node),
                   "changing the arguments of " + launch.planned->kernel + " in a graph");
}

Error CudaDevice::run(DeviceGraph &graph) {
  NvtxRange range(graph.name);
  return checkCuda(cudaGraphLaunch(static_cast<CudaGraph &>(graph).executable, stream), "launching a graph");
}

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
