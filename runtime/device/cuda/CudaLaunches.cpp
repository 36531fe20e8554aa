// Launches of kernels on a GPU, one by one and as graphs.
#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/device/cuda/CudaEvent.h"
#include "runtime/device/cuda/CudaKernel.h"

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
} // namespace

/// The values of a launch's parameters, and pointers to them.
struct CudaDevice::Parameters {
  std::vector<EncodedTensorMap> maps;
  std::vector<uint64_t> words;
  SmallVector<void *, 16> pointers;
};

Expected<CudaDevice::Parameters> CudaDevice::parametersOf(const KernelLaunch &launch) {
  if (!launch.maps.empty() && !encoder) {
    auto made = TensorMapEncoder::create();
    if (!made)
      return made.takeError();
    encoder = *made;
  }
  Parameters parameters{{}, launch.arguments, {}};
  if (!launch.maps.empty())
    if (Error error = encoder->encode(launch).moveInto(parameters.maps))
      return error;
  parameters.pointers = parameterPointers(launch, parameters.words, parameters.maps.data());
  return parameters;
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
  Expected<Parameters> parameters = parametersOf(launch);
  if (!parameters)
    return parameters.takeError();
  const auto &kernel = static_cast<const CudaKernel &>(*launch.kernel);
  LaunchAttributes attributes = attributesOf(launch, kernel);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.dynamicShared;
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return checkCuda(
      cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(kernel.handle()), parameters->pointers.data()),
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
  cudaGraphEdgeData begun = {};
  begun.from_port = cudaGraphKernelNodePortLaunchCompletion;
  for (const auto &[before, after] : beside.order)
    if (Error error =
            checkCuda(cudaGraphAddDependencies(graph->captured, &graph->nodes[before], &graph->nodes[after], &begun, 1),
                      "ordering the launches of a graph"))
      return error;
  if (Error error = checkCuda(cudaGraphInstantiate(&graph->executable, graph->captured, 0), "instantiating a graph"))
    return error;
  return graph;
}

Error CudaDevice::change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) {
  assert(!launch.matmul && "a library's nodes cannot be changed");
  Expected<Parameters> parameters = parametersOf(launch);
  if (!parameters)
    return parameters.takeError();
  cudaKernelNodeParams node = {};
  node.func = static_cast<const CudaKernel &>(*launch.kernel).handle();
  node.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  node.blockDim = dim3(launch.threads);
  node.sharedMemBytes = launch.dynamicShared;
  node.kernelParams = parameters->pointers.data();
  auto &changed = static_cast<CudaGraph &>(graph);
  return checkCuda(cudaGraphExecKernelNodeSetParams(changed.executable, changed.nodes[index], &node),
                   "changing the arguments of " + launch.planned->kernel + " in a graph");
}

Error CudaDevice::run(DeviceGraph &graph) {
  NvtxRange range(graph.name);
  return checkCuda(cudaGraphLaunch(static_cast<CudaGraph &>(graph).executable, stream), "launching a graph");
}

} // namespace kiln
