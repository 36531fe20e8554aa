#include "kernels/KernelRunner.h"
#include "runtime/device/emulated/Launcher.h"
#include "runtime/device/emulated/TensorMaps.h"
#include "runtime/device/emulated/compile/HostKernelCompiler.h"

#include <cstdlib>

namespace kiln {

namespace {

class EmulatedRunner : public KernelRunner {
public:
  explicit EmulatedRunner(EmulatedMemory &memory) : launcher(&memory) {}

  std::string target() const override { return "sm_90a"; }
  size_t wayCount() const override { return std::size(schedules); }

  Error launch(const TestLaunch &launch, size_t way) override {
    static const HostKernelCompiler compiler =
        cantFail(HostKernelCompiler::create({KILN_TEMPLATES, KILN_TEST_CACHE, "", /*checkAccesses=*/true}));
    auto library = compiler.compile(launch.file, launch.source, launch.kernel);
    if (!library)
      return library.takeError();
    std::vector<uint64_t> addresses(launch.arguments.size());
    std::vector<void *> arguments;
    std::vector<TensorRange> arrays;
    for (auto [argument, address] : llvm::zip(launch.arguments, addresses)) {
      address = reinterpret_cast<uint64_t>(argument.data);
      arguments.push_back(argument.isArray ? &address : argument.data);
      if (argument.isArray)
        arrays.push_back(
            {static_cast<const char *>(argument.data), argument.bytes, "argument " + std::to_string(arguments.size())});
    }
    std::vector<TensorMap> maps(launch.maps.size());
    for (auto [map, encoded] : llvm::zip(launch.maps, maps)) {
      encoded = encodeForHost(map, addresses[map.argument]);
      arguments[map.argument] = &encoded;
    }
    LaunchOptions options = schedules[way];
    options.cluster = launch.cluster;
    options.cooperative = launch.cooperative;
    return launcher.launch((*library)->kernel(launch.kernel), launch.grid, {launch.threads}, launch.dynamicShared,
                           arguments, options, arrays);
  }

private:
  static constexpr LaunchOptions schedules[] = {{Schedule::InOrder}, {Schedule::Reversed}, {Schedule::Random, 7}};
  EmulatedLauncher launcher;
};

} // namespace

Expected<std::unique_ptr<KernelRunner>> makeKernelRunner(EmulatedMemory &memory) {
  return std::make_unique<EmulatedRunner>(memory);
}

double sumTolerance(int) { return 5e-7; }

int randomShapeCount() {
  const char *given = std::getenv("KILN_RANDOM_SHAPES");
  return given ? std::atoi(given) : 0;
}

} // namespace kiln
