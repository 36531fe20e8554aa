// Runs the kernels of tests/kernels on a GPU, through the device that runs plans.

#include "kernels/KernelRunner.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "support/files/Cache.h"
#include "unit/TestSupport.h"

#include <cmath>
#include <cstdlib>

namespace kiln {

namespace {

/// An array on the device, between two guards if there is room for them.
class DeviceArray {
public:
  static Expected<DeviceArray> create(CudaDevice &device, const KernelArgument &argument, size_t guard) {
    DeviceArray array;
    array.argument = argument;
    array.guard = guard;
    auto memory = DeviceMemory::allocate(device, std::max<int64_t>(1, array.size()), "array");
    if (!memory)
      return memory.takeError();
    array.memory = std::move(*memory);
    std::string image(array.size(), '\0');
    fillWords(image.data(), image.size(), guardWord);
    std::memcpy(image.data() + guard, argument.data, argument.bytes);
    if (Error error = device.upload(array.memory.address(), image.data(), array.size()))
      return error;
    return array;
  }

  uint64_t address() const { return reinterpret_cast<uint64_t>(memory.address() + guard); }

  /// Downloads the contents. Error: a guard has changed.
  Error fetch(CudaDevice &device, size_t index) {
    std::string image(size(), '\0'), untouched(size(), '\0');
    fillWords(untouched.data(), untouched.size(), guardWord);
    if (Error error = device.download(image.data(), memory.address(), size()))
      return error;
    std::memcpy(argument.data, image.data() + guard, argument.bytes);
    std::memcpy(untouched.data() + guard, argument.data, argument.bytes);
    for (int64_t i = 0; i < size(); ++i)
      if (image[i] != untouched[i])
        return makeError("argument " + Twine(index) + " of " + Twine(argument.bytes) +
                         " bytes: something was written at byte " + Twine(i - static_cast<int64_t>(guard)));
    return Error::success();
  }

private:
  int64_t size() const { return static_cast<int64_t>(argument.bytes + 2 * guard); }

  KernelArgument argument;
  size_t guard = 0;
  DeviceMemory memory;
};

class GpuRunner : public KernelRunner {
public:
  explicit GpuRunner(std::unique_ptr<CudaDevice> device) : device(std::move(device)) {}

  std::string target() const override { return device->target(); }

  /// With guards, which reveal stray writes, and without, so that compute-sanitizer sees stray reads.
  size_t wayCount() const override { return 2; }

  Error launch(const TestLaunch &launch, size_t way) override {
    if (launch.source != loadedSource)
      if (Error error = load(launch))
        return error;
    KernelLaunch words;
    words.kernel = kernels.front().get();
    words.step = &plan.functions.front().steps.front();
    words.planned = &words.step->launch;
    words.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    words.threads = launch.threads;
    words.dynamicShared = launch.dynamicShared;
    words.cluster = launch.cluster;
    std::vector<DeviceArray> arrays;
    for (const KernelArgument &argument : launch.arguments) {
      uint64_t word = 0;
      if (argument.isArray) {
        auto array = DeviceArray::create(*device, argument, way == 0 ? 4096 : 0);
        if (!array)
          return array.takeError();
        word = array->address();
        arrays.push_back(std::move(*array));
      } else {
        std::memcpy(&word, argument.data, argument.bytes);
      }
      words.parameters.push_back(words.arguments.size());
      words.arguments.push_back(word);
    }
    words.maps = launch.maps;
    if (Error error = device->launch(words))
      return error;
    if (Error error = device->synchronize())
      return error;
    for (auto [i, array] : llvm::enumerate(arrays))
      if (Error error = array.fetch(*device, i))
        return error;
    return Error::success();
  }

private:
  /// A plan of this one kernel, which the device compiles.
  Error load(const TestLaunch &launch) {
    TemporaryDirectory directory;
    if (std::error_code failure = llvm::sys::fs::create_directory(directory.str() + "/kernels"))
      return makeError("cannot create a directory: " + failure.message());
    directory.write("kernels/" + launch.kernel + ".cu", launch.source);
    plan = {};
    plan.target = device->target();
    plan.kernels.push_back({launch.kernel, "test", {}});
    plan.kernels.back().cluster = launch.cluster;
    PlanStep &step = plan.functions.emplace_back().steps.emplace_back();
    step.launch.kernel = launch.kernel;
    step.launch.dynamicShared = launch.dynamicShared;
    auto loaded = device->loadKernels(plan, {directory.str(), ""});
    if (!loaded)
      return loaded.takeError();
    kernels = std::move(*loaded);
    loadedSource = launch.source;
    return Error::success();
  }

  std::unique_ptr<CudaDevice> device;
  Plan plan;
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  std::string loadedSource;
};

} // namespace

Expected<std::unique_ptr<KernelRunner>> makeKernelRunner(EmulatedMemory &memory) {
  auto device = CudaDevice::create({0, defaultCacheDirectory(), {}});
  if (!device)
    return device.takeError();
  return std::make_unique<GpuRunner>(std::move(*device));
}

// Tensor cores cut the sum off after each 16 products, by half a unit in its last place on average: at most 2^-24 of
// it. For a sum of 768 that grows steadily, a model of this gives an error of 1.2e-6, an H200 1.05e-6.
double sumTolerance(int depth) { return 5e-7 + std::ldexp(depth / 16.0, -24); }

int randomShapeCount() {
  const char *given = std::getenv("KILN_RANDOM_SHAPES");
  return given ? std::atoi(given) : 3;
}

} // namespace kiln
