#include "runtime/device/emulated/EmulatedDevice.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/device/emulated/HostMatmul.h"
#include "runtime/device/emulated/TensorMaps.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/files/StagedDirectory.h"
#include "templates/TemplateFiles.h"

#include <chrono>
#include <mutex>

namespace kiln {

namespace {

struct EmulatedDeviceKernel : DeviceKernel {
  Expected<std::optional<std::vector<int64_t>>> parameterBytes() const override {
    return code->kernel ? std::optional(code->kernel->parameterBytes) : std::nullopt;
  }

  std::shared_ptr<LazyKernel> code;
  /// The program holds the library only once, so each instance's constant memory is copied into it for its launches.
  std::map<std::string, std::vector<char>, std::less<>> constants;
};

struct EmulatedGraph : DeviceGraph {
  std::vector<KernelLaunch> launches;
  std::vector<size_t> order; ///< in which they run
};

/// Whether a file holds this text.
bool holds(StringRef path, StringRef text) {
  auto file = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return file && (*file)->getBuffer() == text;
}

/// Writes the program's own templates to files for the host compiler, in a directory named by their contents. Missing
/// or changed files are written again. Several processes may do so at once.
Expected<std::string> materialiseTemplates(StringRef cacheDirectory) {
  std::string directory = (cacheDirectory + "/templates-" + sha256Hex(textOf(templateFiles())).substr(0, 16)).str();
  for (const EmbeddedFile &file : templateFiles()) {
    std::string path = (directory + "/" + file.name).str();
    if (holds(path, file.text))
      continue;
    if (std::error_code failure = llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path)))
      return makeFileError(path, "cannot write: " + failure.message());
    if (Error error = writeFile(path, file.text))
      return error;
  }
  return directory;
}

} // namespace

Expected<std::unique_ptr<EmulatedDevice>> EmulatedDevice::create(const Options &options) {
  Expected<std::string> templates = materialiseTemplates(options.cacheDirectory);
  if (!templates)
    return templates.takeError();
  Expected<HostKernelCompiler> compiler =
      HostKernelCompiler::create({*templates, options.cacheDirectory + "/emulated", "", options.checkAccesses});
  if (!compiler)
    return compiler.takeError();
  return std::unique_ptr<EmulatedDevice>(new EmulatedDevice(std::move(*compiler), options));
}

Expected<void *> EmulatedDevice::allocate(int64_t bytes, StringRef what) { return memory.allocate(bytes, what); }

void EmulatedDevice::free(void *address) { memory.free(address); }

Expected<void *> EmulatedDevice::allocateShared(int64_t bytes, StringRef what) {
  return memory.allocateShared(bytes, what);
}

Expected<MemoryHandle> EmulatedDevice::exportMemory(void *shared) {
  Descriptor descriptor = memory.exportShared(shared);
  if (!descriptor.isOpen())
    return makeError("cannot share memory with other processes" + systemReason());
  return MemoryHandle{"", std::move(descriptor)};
}

Expected<void *> EmulatedDevice::importMemory(const MemoryHandle &handle, StringRef what) {
  return memory.import(handle.descriptor, what);
}

Expected<int64_t> EmulatedDevice::freeMemory() {
  // The file consists of lines like `MemAvailable:    1234 kB` and reports no size.
  auto text = MemoryBuffer::getFileAsStream("/proc/meminfo");
  StringRef rest = text ? (*text)->getBuffer() : "";
  rest = rest.substr(rest.find("MemAvailable:")).ltrim("MemAvailable: ");
  int64_t kilobytes = 0;
  return rest.consumeInteger(10, kilobytes) ? INT64_MAX : kilobytes * 1024;
}

Error EmulatedDevice::upload(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
  return Error::success();
}

Error EmulatedDevice::clear(void *target, int64_t bytes) {
  std::memset(target, 0, bytes);
  return Error::success();
}

Error EmulatedDevice::copy(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
  return Error::success();
}

Error EmulatedDevice::download(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
  return Error::success();
}

Expected<std::vector<std::unique_ptr<DeviceKernel>>> EmulatedDevice::loadKernels(const Plan &plan,
                                                                                 const KernelFiles &files) {
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  std::vector<LazyKernel *> codes;
  for (const PlanKernel &planned : plan.kernels) {
    Expected<std::string> source = files.text(planned.name);
    if (!source)
      return source.takeError();
    auto kernel = std::make_unique<EmulatedDeviceKernel>();
    kernel->code =
        std::make_shared<LazyKernel>(LazyKernel{planned, files.source(planned.name), std::move(*source), nullptr});
    codes.push_back(kernel->code.get());
    kernels.push_back(std::move(kernel));
  }
  if (options.compilesAhead)
    if (Error error = compileMissing(compiler, codes, options.progress))
      return error;
  return kernels;
}

/// The code of a launch's kernel; null for a library.
static LazyKernel *codeOf(const KernelLaunch &launch) {
  return launch.kernel ? static_cast<const EmulatedDeviceKernel *>(launch.kernel)->code.get() : nullptr;
}

Error EmulatedDevice::compile(ArrayRef<KernelLaunch> launches) {
  std::vector<LazyKernel *> codes;
  for (const KernelLaunch &launch : launches)
    if (LazyKernel *code = codeOf(launch))
      codes.push_back(code);
  if (Error error = compileMissing(compiler, codes, options.progress))
    return error;
  for (const KernelLaunch &launch : launches)
    if (const LazyKernel *code = codeOf(launch))
      if (Error error = checkArguments(*launch.planned, code->planned, code->kernel->parameterBytes))
        return error;
  return Error::success();
}

/// Adds the kernel's origin in the model to an error of its launch.
static Error withOrigin(Error error, const KernelLaunch &launch) {
  std::vector<Diagnostic> diagnostics = takeDiagnostics(std::move(error));
  std::string results;
  for (const LaunchTensor &tensor : launch.tensors)
    if (tensor.isFresh && tensor.name != "@workspace")
      results += (results.empty() ? " " : ", ") + tensor.name;
  Diagnostic origin(Diagnostic::Severity::Note, {},
                    "the kernel computes" + (results.empty() ? " a state" : results) + " of the model");
  auto [file, line] = StringRef(launch.step->location).rsplit(':');
  origin.file = file.str();
  if (line.getAsInteger(10, origin.line))
    origin.file = launch.step->location;
  diagnostics.push_back(std::move(origin));
  return llvm::make_error<DiagnosticError>(std::move(diagnostics));
}

Expected<std::unique_ptr<DeviceKernel>> EmulatedDevice::instantiate(const DeviceKernel &kernel) {
  return std::make_unique<EmulatedDeviceKernel>(static_cast<const EmulatedDeviceKernel &>(kernel));
}

Error EmulatedDevice::setConstant(DeviceKernel &kernel, StringRef name, const void *source, int64_t bytes) {
  auto &own = static_cast<EmulatedDeviceKernel &>(kernel);
  if (Error error = compileMissing(compiler, {own.code.get()}, options.progress))
    return error;
  if (own.code->library->constant(name).size() != static_cast<size_t>(bytes))
    return wrongConstant(own.code->planned.name, name, bytes);
  const char *begin = static_cast<const char *>(source);
  own.constants[name.str()].assign(begin, begin + bytes);
  return Error::success();
}

Error EmulatedDevice::launch(const KernelLaunch &launch) {
  if (Error error = compile(launch))
    return error;
  return runNow(launch);
}

Error EmulatedDevice::runNow(const KernelLaunch &launch) {
  if (launch.matmul) {
    runMatmulOnHost(*launch.matmul, launch.arguments);
    return Error::success();
  }
  const auto &loaded = *static_cast<const EmulatedDeviceKernel *>(launch.kernel);
  const EmulatedKernel &kernel = *loaded.code->kernel;
  // Another device of this program may have the same library, with its own constants.
  static std::mutex constantsInUse;
  std::unique_lock<std::mutex> lock(constantsInUse, std::defer_lock);
  if (!loaded.constants.empty())
    lock.lock();
  for (const auto &[name, bytes] : loaded.constants)
    llvm::copy(bytes, loaded.code->library->constant(name).begin());
  std::vector<TensorMap> maps(launch.maps.size());
  for (auto [map, encoded] : llvm::zip(launch.maps, maps))
    encoded = encodeForHost(map, launch.arguments[map.argument]);
  // An int is read from the low half of its word.
  std::vector<uint64_t> words = launch.arguments;
  SmallVector<void *, 16> pointers = parameterPointers(launch, words, maps.data());
  std::vector<TensorRange> ranges;
  for (const LaunchTensor &tensor : launch.tensors) {
    ranges.push_back({tensor.address, static_cast<size_t>(tensor.bytes), tensor.name, tensor.isWritten});
    // Old content of the arena must not pass for a result.
    if (tensor.isFresh)
      fillWords(tensor.address, tensor.bytes, poisonWord);
  }
  LaunchOptions how = options.launch;
  // On a GPU, blocks that wait for other ranks run at the same time, too: they are few.
  how.cooperative = launch.planned->cooperative || launch.step->inbox != 0;
  how.cluster = launch.cluster;
  how.startsAfterAll = launch.startsAfterAll;
  Error error = launcher.launch(kernel, {launch.grid[0], launch.grid[1], launch.grid[2]}, {launch.threads, 1, 1},
                                launch.dynamicShared, pointers, how, ranges);
  return error ? withOrigin(std::move(error), launch) : Error::success();
}

Expected<std::unique_ptr<DeviceGraph>> EmulatedDevice::makeGraph(std::vector<KernelLaunch> launches,
                                                                 GraphBranch beside) {
  auto graph = std::make_unique<EmulatedGraph>();
  graph->order = sequenceOf(launches.size(), beside);
  graph->launches = std::move(launches);
  llvm::append_range(graph->launches, std::move(beside.launches));
  // All at once, so that they are compiled side by side.
  if (Error error = compile(graph->launches))
    return error;
  return graph;
}

Error EmulatedDevice::change(DeviceGraph &graph, size_t index, const KernelLaunch &launch) {
  KernelLaunch &old = static_cast<EmulatedGraph &>(graph).launches[index];
  assert(old.kernel == launch.kernel && old.grid == launch.grid && "expected other arguments alone");
  old = launch;
  return Error::success();
}

Error EmulatedDevice::run(DeviceGraph &graph) {
  NvtxRange range(graph.name);
  const auto &own = static_cast<EmulatedGraph &>(graph);
  for (size_t index : own.order)
    if (Error error = runNow(own.launches[index]))
      return error;
  return Error::success();
}

Expected<double> EmulatedDevice::measure(function_ref<Error()> work) {
  auto start = std::chrono::steady_clock::now();
  if (Error error = work())
    return error;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace kiln
