#include "runtime/measure/PhaseTimes.h"

#include "support/Diagnostic.h"

#include <numeric>

namespace kiln {

Expected<std::vector<PhaseShare>> measurePhases(Executor &executor, KernelLaunch launch) {
  const PlanKernel *kernel = executor.plan().findKernel(launch.planned->kernel);
  if (!kernel || kernel->phases.empty())
    return std::vector<PhaseShare>();
  Device &device = executor.device();
  Plan withClocks = executor.plan();
  withClocks.kernels = {*kernel};
  KernelFiles files = executor.kernelFiles();
  files.macro = phaseTimesMacro.str();
  auto loaded = device.loadKernels(withClocks, files);
  if (!loaded)
    return loaded.takeError();
  launch.kernel = loaded->front().get();

  auto isOwn = [&](const LaunchTensor &tensor) {
    return tensor.name == "@mailboxes" || mailboxesOf(tensor.name) == executor.ownRank();
  };
  char *const words = llvm::find_if(launch.tensors, isOwn)->address;
  const size_t phases = kernel->phases.size(), blocks = size_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  std::vector<uint32_t> cycles(blocks * phases);
  const auto bytes = static_cast<int64_t>(cycles.size() * sizeof(uint32_t));
  auto graph = device.makeGraph({launch});
  if (!graph)
    return graph.takeError();
  auto run = [&](int64_t times) -> Error {
    if (Error error = device.clear(words, bytes))
      return error;
    for (int64_t i = 0; i < times; ++i)
      if (Error error = device.run(**graph))
        return error;
    return device.download(cycles.data(), words, bytes);
  };
  if (device.isTimed()) // else one launch says as little as many
    if (Error error = run(/*times=*/3))
      return error;
  if (Error error = run(device.isTimed() ? 10 : 1))
    return error;

  std::vector<PhaseShare> shares;
  const double all = std::max(1.0, std::accumulate(cycles.begin(), cycles.end(), 0.0));
  for (const auto &[phase, name] : llvm::enumerate(kernel->phases)) {
    double own = 0;
    for (size_t block = 0; block < blocks; ++block)
      own += cycles[block * phases + phase];
    shares.push_back({name, own / all});
  }
  return shares;
}

} // namespace kiln
