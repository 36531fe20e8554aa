#include "runtime/device/emulated/Launcher.h"

#include "runtime/device/emulated/block/Scheduler.h"
#include "support/process/Parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <random>

namespace kiln {

static constexpr uint32_t maxBlockThreads = 1024;
/// Limits of every GPU: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
static constexpr Dim3 maxGrid = {0x7fffffff, 0xffff, 0xffff};
/// The most threads of a cooperative launch, all of which a GPU runs at once. No GPU holds more (2048 per
/// multiprocessor).
static constexpr uint64_t maxCooperativeThreads = 1 << 20;

EmulatedLauncher::EmulatedLauncher(EmulatedMemory *memory) : memory(memory) {}
EmulatedLauncher::~EmulatedLauncher() = default;

static Error checkLaunch(const EmulatedKernel &kernel, Dim3 grid, Dim3 block, size_t dynamicSharedBytes,
                         size_t arguments, const LaunchOptions &options) {
  auto refuse = [&](const Twine &message) {
    return makeFileError(kernel.source, "kernel " + kernel.name + ": " + message);
  };
  if (arguments != kernel.parameterBytes.size())
    return refuse(formatv("expected {0} arguments, got {1}", kernel.parameterBytes.size(), arguments));
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return refuse(formatv("expected a grid of at least one block, got {0}x{1}x{2}", grid.x, grid.y, grid.z));
  if (grid.x > maxGrid.x || grid.y > maxGrid.y || grid.z > maxGrid.z)
    return refuse(formatv("expected a grid of at most {0}x{1}x{2} blocks, got {3}x{4}x{5}", maxGrid.x, maxGrid.y,
                          maxGrid.z, grid.x, grid.y, grid.z));
  if (block.y != 1 || block.z != 1)
    return refuse(formatv("expected a one-dimensional block, got {0}x{1}x{2}", block.x, block.y, block.z));
  if (block.x == 0 || block.x > maxBlockThreads)
    return refuse(formatv("expected a block of 1 to {0} threads, got {1}", maxBlockThreads, block.x));
  if (options.cooperative && grid.count() > maxCooperativeThreads / block.x)
    return refuse(formatv("expected a cooperative launch of at most {0} threads, got {1} blocks of {2}",
                          maxCooperativeThreads, grid.count(), block.x));
  if (options.cluster == 0 || options.cluster > AccessStamp::maxBlocks)
    return refuse(formatv("expected a cluster of 1 to {0} blocks, got {1}", AccessStamp::maxBlocks, options.cluster));
  if (grid.x % options.cluster != 0)
    return refuse(
        formatv("expected a grid of whole clusters of {0} blocks in x, got {1} blocks", options.cluster, grid.x));
  if (dynamicSharedBytes > SharedMemory::maxBytes)
    return refuse(formatv("expected at most {0} bytes of dynamic shared memory, got {1}", SharedMemory::maxBytes,
                          dynamicSharedBytes));
  return Error::success();
}

Error EmulatedLauncher::launch(const EmulatedKernel &kernel, Dim3 grid, Dim3 block, size_t dynamicSharedBytes,
                               ArrayRef<void *> args, const LaunchOptions &options, ArrayRef<TensorRange> tensors) {
  if (Error error = checkLaunch(kernel, grid, block, dynamicSharedBytes, args.size(), options))
    return error;
  SmallVector<void *, 16> arguments(args);
  std::vector<TensorRange> all;
  if (tensors.empty() && memory)
    tensors = all = memory->ranges();
  else if (memory)
    memory->restrictTo(tensors);
  if (options.startsAfterAll)
    written.clear();
  Error error = runBlocks(
      {&kernel, TensorRanges(tensors), written, grid, block.x, dynamicSharedBytes, arguments.data(), options});
  for (const auto &scheduler : schedulers)
    written.add(scheduler->takeWritten());
  if (memory)
    memory->liftRestriction(tensors);
  if (error)
    return error;
  if (memory)
    if (std::optional<std::string> damage = memory->takeDamage())
      return makeFileError(kernel.source, "kernel " + kernel.name + ": " + *damage);
  return Error::success();
}

namespace {

/// The clusters of the grid in the order in which the schedule starts them. Only a random schedule stores a list, since
/// grids may be large.
class ClusterOrder {
public:
  explicit ClusterOrder(const EmulatedLaunch &launch)
      : count(launch.grid.count() / launch.options.cluster), isReversed(launch.options.schedule == Schedule::Reversed) {
    if (launch.options.schedule != Schedule::Random)
      return;
    shuffled.resize(count);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::mt19937_64 generator(launch.options.seed);
    for (size_t i = count; i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[generator() % i]);
  }

  uint64_t size() const { return count; }
  uint64_t operator[](uint64_t i) const {
    if (!shuffled.empty())
      return shuffled[i];
    return isReversed ? count - 1 - i : i;
  }

private:
  uint64_t count;
  bool isReversed;
  std::vector<uint64_t> shuffled;
};

} // namespace

Error EmulatedLauncher::runBlocks(const EmulatedLaunch &launch) {
  const ClusterOrder order(launch);
  // A cooperative launch is one group of clusters, on one core. Any other launch has one group per cluster.
  const uint64_t groupClusters = launch.options.cooperative ? order.size() : 1;
  const uint64_t groups = order.size() / groupClusters;
  size_t cores = launch.options.threads ? launch.options.threads : parallelThreads();
  cores = std::min<uint64_t>(std::max<size_t>(cores, 1), groups);
  while (schedulers.size() < cores)
    schedulers.push_back(std::make_unique<Scheduler>());

  std::atomic<uint64_t> next = 0, firstFailed = groups;
  std::vector<Diagnostic> failure;
  std::mutex failureMutex;
  auto work = [&](size_t core) {
    // Groups are taken in order: when one fails, all groups before it have been taken.
    std::vector<uint64_t> clusters(groupClusters);
    for (uint64_t group; (group = next++) < firstFailed;) {
      for (uint64_t i = 0; i < groupClusters; ++i)
        clusters[i] = order[group * groupClusters + i];
      std::vector<Diagnostic> diagnostics = schedulers[core]->run(launch, clusters);
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
    parallelFor(cores, work);
  if (failure.empty())
    return Error::success();
  return llvm::make_error<DiagnosticError>(std::move(failure));
}

} // namespace kiln
