#include "runtime/device/emulated/Launcher.h"

#include "runtime/device/emulated/Scheduler.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>

namespace kiln {

static constexpr uint32_t maxBlockThreads = 1024;

EmulatedLauncher::EmulatedLauncher(EmulatedMemory *memory) : memory(memory) {}
EmulatedLauncher::~EmulatedLauncher() = default;

static Error checkLaunch(const EmulatedKernel &kernel, Dim3 grid, Dim3 block, size_t dynamicSharedBytes,
                         size_t arguments) {
  auto refuse = [&](const Twine &message) {
    return makeFileError(kernel.source, "kernel " + kernel.name + ": " + message);
  };
  if (arguments != kernel.parameterBytes.size())
    return refuse(formatv("expected {0} arguments, got {1}", kernel.parameterBytes.size(), arguments));
  if (grid.count() == 0)
    return refuse(formatv("expected a grid of at least one block, got {0}x{1}x{2}", grid.x, grid.y, grid.z));
  if (block.y != 1 || block.z != 1)
    return refuse(formatv("expected a one-dimensional block, got {0}x{1}x{2}", block.x, block.y, block.z));
  if (block.x == 0 || block.x > maxBlockThreads)
    return refuse(formatv("expected a block of 1 to {0} threads, got {1}", maxBlockThreads, block.x));
  if (dynamicSharedBytes > SharedMemory::maxBytes)
    return refuse(formatv("expected at most {0} bytes of dynamic shared memory, got {1}", SharedMemory::maxBytes,
                          dynamicSharedBytes));
  return Error::success();
}

Error EmulatedLauncher::launch(const EmulatedKernel &kernel, Dim3 grid, Dim3 block, size_t dynamicSharedBytes,
                               ArrayRef<void *> args, const LaunchOptions &options, ArrayRef<TensorRange> tensors) {
  if (Error error = checkLaunch(kernel, grid, block, dynamicSharedBytes, args.size()))
    return error;
  SmallVector<void *, 16> arguments(args);
  std::vector<TensorRange> all;
  if (tensors.empty() && memory)
    tensors = all = memory->ranges();
  else if (memory)
    memory->restrictTo(tensors);
  Error error = runBlocks({&kernel, tensors, grid, block.x, dynamicSharedBytes, arguments.data(), options});
  if (memory)
    memory->liftRestriction(tensors);
  if (error)
    return error;
  if (memory)
    if (std::optional<std::string> damage = memory->takeDamage())
      return makeFileError(kernel.source, "kernel " + kernel.name + ": " + *damage);
  return Error::success();
}

/// All blocks of the grid, in the order in which the schedule starts them.
static std::vector<uint64_t> blockOrder(const EmulatedLaunch &launch) {
  std::vector<uint64_t> order(launch.grid.count());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  if (launch.options.schedule == Schedule::Reversed)
    std::reverse(order.begin(), order.end());
  if (launch.options.schedule == Schedule::Random) {
    std::mt19937_64 generator(launch.options.seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[generator() % i]);
  }
  return order;
}

Error EmulatedLauncher::runBlocks(const EmulatedLaunch &launch) {
  std::vector<uint64_t> order = blockOrder(launch);
  // A cooperative launch is one group of blocks on one core; any other, as many groups as blocks.
  size_t groupBlocks = launch.options.cooperative ? order.size() : 1;
  size_t groups = order.size() / groupBlocks;
  size_t cores = launch.options.threads ? launch.options.threads : llvm::parallel::getThreadCount();
  cores = std::min(std::max<size_t>(cores, 1), groups);
  while (schedulers.size() < cores)
    schedulers.push_back(std::make_unique<Scheduler>());

  std::atomic<size_t> next = 0, firstFailed = groups;
  std::vector<Diagnostic> failure;
  std::mutex failureMutex;
  auto work = [&](size_t core) {
    // Groups are taken in order, so that whatever comes before a failed one has been taken when it fails.
    for (size_t group; (group = next++) < firstFailed;) {
      ArrayRef<uint64_t> blocks = ArrayRef(order).slice(group * groupBlocks, groupBlocks);
      std::vector<Diagnostic> diagnostics = schedulers[core]->run(launch, blocks);
      if (diagnostics.empty())
        continue;
      std::lock_guard lock(failureMutex);
      if (group < firstFailed) {
        firstFailed = group;
        failure = std::move(diagnostics);
      }
    }
  };
  if (cores == 1)
    work(0);
  else
    llvm::parallelFor(0, cores, work);
  if (failure.empty())
    return Error::success();
  return llvm::make_error<DiagnosticError>(std::move(failure));
}

} // namespace kiln
