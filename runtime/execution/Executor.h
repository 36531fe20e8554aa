//===- Executor.h - runs a plan on a device ---------------------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/execution/LoadedKernels.h"
#include "runtime/execution/WeightUpload.h"
#include "runtime/weights/WeightSource.h"

namespace kiln {

/// A plan on a device: its kernels, packed weights, arena, states and arguments. Memory is allocated when the executor
/// is made; running allocates nothing.
class Executor {
public:
  struct Options {
    int64_t batch = 1;          ///< most sequences at once: caches and arena are this large
    int64_t tokens = 1;         ///< most tokens a sequence in one call
    std::vector<Entry> entries; ///< that will be called; only they get memory
  };

  /// Loads the plan's kernels and begins to load its weights, in the order in which the first of the entries uses
  /// them; the first call computes with those that are there while others are on their way. `device` and `weights` must
  /// outlive the executor. Error: an entry that the plan has not, dims past the plan's bounds, not enough memory for
  /// all of it, kernels with other parameters than the plan's arguments, and what the device reports. A missing or
  /// misshapen weight is an error of the first call.
  static Expected<std::unique_ptr<Executor>> create(Device &device, Plan plan, const KernelFiles &files,
                                                    const WeightSource &weights, const Options &options);

  /// The plan, as far as its functions may be called.
  const Plan &plan() const { return thePlan; }
  const Options &options() const { return capacity; }
  Device &device() const { return theDevice; }

  /// Memory for an argument, and whether the function may write it.
  struct Binding {
    StringRef argument;
    char *address;
    bool isWritten;
  };

  /// One call: dims within the options, and for each argument its elements.
  struct Call {
    Entry entry;
    DimBinding dims;
    std::vector<std::pair<StringRef, ArrayRef<int32_t>>> arguments;
    /// States start at this sequence, so that a call can work on rows firstRow .. firstRow + B of a batch.
    int64_t firstRow = 0;
    /// Where arguments lie, in place of memory of their own.
    std::vector<Binding> bindings = {};
  };

  /// A call of an entry for so many sequences, of so many tokens each; of @decode and @sample, one.
  Call call(Entry entry, int64_t batch, int64_t tokens = 1) const { return {entry, thePlan.bind(batch, tokens), {}}; }

  /// Uploads the arguments and enqueues the function's steps. The result stays in the arena until the next call. Error:
  /// dims outside the plan's bounds or past the options, arguments of another size, and what the device reports.
  Error enqueue(const Call &call);

  /// Enqueues a function again, with the arguments that its last call left on the device. Costs one graph launch, or
  /// one for each step where the plan wants that.
  Error repeat(const Call &call);

  /// Enqueues a function's steps alone; its arguments are bound, or are what they were.
  Error launch(const Call &call);

  /// Several calls, one after the other, as one graph for Device::run. Arguments as for launch.
  Expected<std::unique_ptr<DeviceGraph>> record(ArrayRef<Call> calls);

  /// Where a tensor of a call lies: an argument, buffer or state.
  Expected<char *> addressOf(const Call &call, StringRef tensor) const;

  /// Enqueues a copy of a sequence's share of every state to another's.
  Error copyRow(int64_t from, int64_t to);

  /// The launches of a call, for profiles; their addresses stay valid as long as the executor.
  Expected<std::vector<KernelLaunch>> launches(const Call &call) const;

  /// Before the first step of a call, and after each step, which has finished then. For checks and profiles: calls are
  /// then launched step by step instead of as a graph.
  struct Observer {
    std::function<Error(const Call &)> onCall;
    std::function<Error(const PlanFunction &, size_t step)> onStep;
  };
  void setObserver(Observer chosen) { observer = std::move(chosen); }
  bool isObserved() const { return observer.has_value(); }

  /// Waits, and copies a buffer, argument or state of the function that ran last, from `element` on. Error: it has no
  /// such tensor, or not so many elements.
  Error download(StringRef name, int64_t element, MutableArrayRef<float> elements);

  /// Number of elements of a tensor in the call that ran last; nothing if it has none of that name.
  std::optional<int64_t> elementCount(StringRef name) const;

private:
  struct Placement {
    char *address = nullptr;
    DType dtype = DType::F32;
    int64_t elements = 0;
  };
  struct GraphKey {
    Entry entry;
    DimBinding dims;
    int64_t firstRow;
    auto operator<=>(const GraphKey &) const = default;
  };

  Executor(Device &device, Plan plan, const Options &options)
      : theDevice(device), thePlan(std::move(plan)), capacity(options) {}

  // ExecutorChecks.cpp
  struct MemoryNeeds;
  Error checkOptions() const;
  Error checkDims(const Call &call) const;
  Expected<MemoryNeeds> memoryNeeds() const;
  Expected<int64_t> arenaBytes() const;
  Expected<int64_t> counterBytes() const;
  /// Refuses at once what would fail halfway, with all that the user can choose by.
  Error checkMemory() const;

  bool isWanted(const PlanFunction &function) const;
  void restrictPlan();
  Error loadKernels(const KernelFiles &files);
  std::vector<const PlanWeight *> weightsByUse() const;
  Error loadWeights(const WeightSource &source);
  Error allocateMemory();
  DimBinding largestDims() const;
  Expected<std::map<std::string, Placement, std::less<>>> place(const PlanFunction &function, const Call &call) const;
  Error addArgument(KernelLaunch &launch, StringRef name, const PlanFunction &function, const Call &call,
                    const std::map<std::string, Placement, std::less<>> &placed) const;
  Error fillKernel(KernelLaunch &launch, const Call &call) const;
  static Error fillMatmul(KernelLaunch &launch, const Call &call);
  Expected<std::vector<KernelLaunch>> resolve(const PlanFunction &function, const Call &call) const;
  Expected<DeviceGraph *> graphFor(const PlanFunction &function, const Call &call);
  Error uploadArguments(const PlanFunction &function, const Call &call);
  Error runObserved(const PlanFunction &function, const Call &call);
  Error awaitWeights(const PlanLaunch &planned, std::optional<size_t> &awaited);
  Error runWhileLoading(const PlanFunction &function, const Call &call);
  Error finishLoading();

  Device &theDevice;
  Plan thePlan;
  Options capacity;
  LoadedKernels kernels;
  std::map<std::string, DeviceMemory, std::less<>> weights, states;
  std::map<std::string, DeviceMemory, std::less<>> arguments; ///< by FUNCTION/NAME
  DeviceMemory arena, counters;
  std::map<GraphKey, std::unique_ptr<DeviceGraph>> graphs;
  std::map<std::string, Placement, std::less<>> lastPlacement; ///< of the call that ran last
  std::optional<Observer> observer;
  std::map<std::string, size_t, std::less<>> loadingOrder; ///< of weights, while they are being loaded
  std::unique_ptr<WeightUpload> loading;                   ///< last: it uses memory of the others
};

} // namespace kiln
