//===- Executor.h - runs a plan on a device ---------------------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/execution/LoadedKernels.h"
#include "runtime/execution/WeightUpload.h"
#include "runtime/weights/WeightSource.h"

namespace kiln {

/// A plan on a device, with its kernels, packed weights, arena, states and arguments. The constructor allocates all
/// memory; running allocates nothing.
class Executor {
public:
  struct Options {
    int64_t batch = 1;          ///< the largest batch: caches and arena have this size
    int64_t tokens = 1;         ///< the most tokens per sequence in one call
    std::vector<Entry> entries; ///< the entries that will be called; only they get memory
    Trace *trace = nullptr;     ///< where uploads of weights become spans; outlives the executor
  };

  /// Loads the plan's kernels and starts to load its weights, in the order in which the first of the entries uses them.
  /// The first call starts to compute with the weights that have arrived while others are still being uploaded.
  /// `device` and `weights` must outlive the executor. Error: an entry that the plan does not have, dims past the
  /// plan's bounds, not enough memory for everything, kernels whose parameters differ from the plan's arguments, and
  /// errors of the device. A missing or misshapen weight is an error of the first call.
  static Expected<std::unique_ptr<Executor>> create(Device &device, Plan plan, const KernelFiles &files,
                                                    const WeightSource &weights, const Options &options);

  /// Like create, on each of several devices: weights are read and packed once, and uploaded to all. Each device has
  /// the same bits and gives the same results. Different threads may use different executors.
  static Expected<std::vector<std::unique_ptr<Executor>>> createReplicas(ArrayRef<Device *> devices, const Plan &plan,
                                                                         const KernelFiles &files,
                                                                         const WeightSource &weights,
                                                                         const Options &options);

  /// The executors of a plan for several ranks, each on its device: rank i on the i-th. Each has its share of the
  /// weights, and reads no more of them. All ranks make the same calls in the same order, each in a thread of its own;
  /// a call waits for the others, and has the same results on all. Error: as of create, another number of devices than
  /// ranks, GPUs that cannot reach each other's memory.
  static Expected<std::vector<std::unique_ptr<Executor>>> createRanks(ArrayRef<Device *> devices, const Plan &plan,
                                                                      const KernelFiles &files,
                                                                      const WeightSource &weights,
                                                                      const Options &options);

  /// What other processes need to reach the memory of a rank.
  struct RankHandles {
    MemoryHandle inbox, arena;
  };
  /// Gives this rank's memory to the other ranks, and returns that of all, in the order of the ranks.
  using ShareHandles = function_ref<Expected<std::vector<RankHandles>>(const RankHandles &own)>;

  /// Like createRanks, one of the executors: each of the others is made by a process of its own on this host. `share`
  /// is called once, when this rank's memory is ready for what the others write. Error: likewise, and that of `share`.
  static Expected<std::unique_ptr<Executor>> createRank(Device &device, int64_t rank, const Plan &plan,
                                                        const KernelFiles &files, const WeightSource &weights,
                                                        const Options &options, ShareHandles share);

  /// Waits for this rank's work, and lets go of the memory of other processes. No call may follow. Error: the failure
  /// of any of the work.
  Error leaveRanks();

  /// Ends what this rank's kernels wait for, with an error: another rank has failed and will write nothing any more.
  /// May be called from any thread.
  void stopWaiting();

  /// Ends the upload of weights, that to replicas, too, if it is still going on.
  ~Executor();

  /// The plan, reduced to the functions that may be called.
  const Plan &plan() const { return thePlan; }
  const Options &options() const { return capacity; }
  /// Where the kernels that it has loaded come from.
  const KernelFiles &kernelFiles() const { return files; }
  Device &device() const { return theDevice; }
  /// The tokens in the cache at which other kernels of @decode begin.
  const CacheBounds &cacheBounds() const { return boundsOfCache; }
  /// Its number among the ranks of the plan.
  int64_t ownRank() const { return rank; }

  /// Memory for an argument, and whether the function may write it.
  struct Binding {
    StringRef argument;
    char *address;
    bool isWritten;
  };

  /// The part of the executor's memory in which a call works: calls in different lanes may run at the same time.
  struct Lane {
    bool isHalf = false;    ///< whether the call is a half of another one, which runs beside the other half
    int64_t number = 0;     ///< of the lane's counters and words of exchanges
    int64_t rowsBefore = 0; ///< rows of the other call in front of this half's
    int64_t arena = 0;      ///< bytes of the arena in front of the lane's
  };

  /// One call: dims within the options, and the elements of each argument.
  struct Call {
    Entry entry;
    DimBinding dims;
    std::vector<std::pair<StringRef, ArrayRef<int32_t>>> arguments;
    /// The first sequence of the states, so that a call can work on rows firstRow .. firstRow + B of a batch.
    int64_t firstRow = 0;
    /// Addresses of arguments that do not lie in the executor's own memory.
    std::vector<Binding> bindings = {};
    Lane lane = {}; ///< chosen by the executor: ExecutorHalves.cpp
  };

  /// A call of an entry for a number of sequences with a number of tokens each; @decode and @sample take one token.
  Call call(Entry entry, int64_t batch, int64_t tokens = 1) const { return {entry, thePlan.bind(batch, tokens), {}}; }
  /// A call of @decode for the next token of so many sequences, of which the longest has `past` tokens in the cache:
  /// with the kernels that are the fastest for so many. All numbers give the same bits.
  Call decodeCall(int64_t batch, int64_t past) const {
    Call made = call(Entry::Decode, batch);
    boundsOfCache.addTo(made.dims, past);
    return made;
  }

  /// Uploads the arguments and enqueues the function's steps. The calling thread uses this device from then on. The
  /// result stays in the arena until the next call. Error: dims outside the plan's bounds or past the options,
  /// arguments of the wrong size, and errors of the device.
  Error enqueue(const Call &call);

  /// Enqueues a function again, with the arguments that its last call left on the device. Costs one graph launch, or
  /// one launch per step where the plan asks for that.
  Error repeat(const Call &call);

  /// Enqueues a function's steps without uploads; arguments that are not bound keep their last values.
  Error launch(const Call &call);

  /// Combines several calls, in order, into one graph for Device::run. Arguments as for launch.
  Expected<std::unique_ptr<DeviceGraph>> record(ArrayRef<Call> calls);

  /// The address of a tensor of a call: an argument, buffer or state.
  Expected<char *> addressOf(const Call &call, StringRef tensor) const;

  /// Enqueues a copy of one sequence's share of every state to another sequence.
  Error copyRow(int64_t from, int64_t to);

  /// Waits until all weights have been uploaded. The calling thread uses this device from then on. Error: a missing or
  /// misshapen weight.
  Error finishLoading();

  /// The calls that run side by side for a call: 2 if it has halves, else 1.
  int64_t partCount(const Call &call) const;

  /// The launches of a call, for profiles and for graphs that have calls of several executors; these must have finished
  /// loading. Their addresses stay valid as long as the executor.
  Expected<std::vector<KernelLaunch>> launches(const Call &call) const;

  /// Called before the first step of a call and after each finished step, with the seconds that the device spent on it,
  /// for checks and profiles. Calls are then launched step by step instead of as a graph.
  struct Observer {
    std::function<Error(const Call &)> onCall;
    std::function<Error(const PlanFunction &, size_t step, double seconds)> onStep;
  };
  void setObserver(Observer chosen) { observer = std::move(chosen); }
  void stopObserving() { observer.reset(); }
  bool isObserved() const { return observer.has_value(); }

  /// Waits, and copies a buffer, argument or state of the function that ran last, starting at `element`. Error: it has
  /// no such tensor, or not that many elements.
  Error download(StringRef name, int64_t element, MutableArrayRef<float> elements);

  /// Number of elements of a tensor in the call that ran last; nullopt if it has no tensor of that name.
  std::optional<int64_t> elementCount(StringRef name) const;

private:
  struct Placement {
    char *address = nullptr;
    DType dtype = DType::F32;
    int64_t elements = 0;
    bool isState = false;
    int64_t madeBy = -1; ///< the step that writes the buffer first; -1: none does
  };
  using Placements = llvm::StringMap<Placement>; ///< by the tensor's name
  struct GraphKey {
    Entry entry;
    DimBinding dims;
    auto operator<=>(const GraphKey &) const = default;
  };
  /// A graph of a function, and the rows of the states that it works on now.
  struct KeptGraph {
    std::unique_ptr<DeviceGraph> graph; ///< null for a shape that has come only once
    int64_t firstRow = 0;
  };

  Executor(Device &device, Plan plan, const Options &options)
      : theDevice(device), thePlan(std::move(plan)), capacity(options), boundsOfCache(thePlan) {}

  // ExecutorChecks.cpp
  struct MemoryNeeds;
  Error checkOptions(size_t devices) const;
  Error checkDims(const Call &call) const;
  Expected<MemoryNeeds> memoryNeeds() const;
  Expected<int64_t> arenaBytes() const;
  Expected<int64_t> counterBytes() const;
  /// Checks at once that the memory suffices; the error lists the sizes and what the user can change.
  Error checkMemory() const;

  // ExecutorHalves.cpp
  bool isGoodInHalf(const PlanStep &step, const PlanLaunch &launch) const;
  bool canHalve(const PlanFunction &function) const;
  bool isHalved(const PlanFunction &function, const DimBinding &dims) const;
  static std::vector<std::pair<size_t, size_t>> orderOfHalves(ArrayRef<KernelLaunch> launches);
  Error resolveParts(std::vector<KernelLaunch> &launches, GraphBranch &beside, const PlanFunction &function,
                     const Call &call) const;
  Expected<std::vector<KernelLaunch>> resolveInSequence(const PlanFunction &function, const Call &call) const;
  Expected<SmallVector<Call, 2>> partsOf(const PlanFunction &function, const Call &call) const;
  /// The bytes, and where the results are: of all calls that have halves, in one place.
  struct HalvedArena {
    int64_t bytes = 0;
    std::map<StringRef, int64_t> results;
  };
  Expected<HalvedArena> halvedArena(const PlanFunction &function) const;
  int64_t lanes() const;

  bool isWanted(const PlanFunction &function) const;
  void restrictPlan();
  Error loadKernels(const KernelFiles &from);
  std::vector<const PlanWeight *> weightsByUse() const;
  Error allocateWeights();
  static Expected<std::unique_ptr<Executor>> prepare(Device &device, const Plan &plan, const Options &options,
                                                     size_t ranks);
  static Error loadWeights(ArrayRef<std::unique_ptr<Executor>> replicas, const WeightSource &source);
  int64_t inboxBytes() const;
  static int64_t mailboxBytesOfLane(const PlanStep &step);
  Error allocateMailboxes();
  Error allocateInbox();
  Expected<DeviceMemory> allocateForRanks(int64_t bytes, StringRef what);
  static Error linkRanks(ArrayRef<std::unique_ptr<Executor>> ranks);
  Error linkProcesses(ShareHandles share);
  Error finishCreation(const KernelFiles &files);
  Error allocateMemory();
  DimBinding largestDims() const;
  static Error addPlacement(Placements &placed, const PlanTensor &tensor, const Call &call, Placement place);
  Expected<int64_t> bytesOfRows(const PlanTensor &tensor, const Call &call, int64_t rows) const;
  Expected<Placements> place(const PlanFunction &function, const Call &call) const;
  Error placeBuffers(Placements &placed, const PlanFunction &function, const Call &call) const;
  Error addArgument(KernelLaunch &launch, StringRef name, const PlanFunction &function, const Call &call,
                    const Placements &placed) const;
  Error fillKernel(KernelLaunch &launch, const Call &call) const;
  static Error fillMaps(KernelLaunch &launch, const PlanKernel &kernel, const Call &call);
  static Error fillMatmul(KernelLaunch &launch, const Call &call);
  Expected<std::vector<KernelLaunch>> resolve(const PlanFunction &function, const Call &call) const;
  Expected<std::vector<KernelLaunch>> resolve(const PlanFunction &function, const Call &call,
                                              const Placements &placed) const;
  Expected<KernelLaunch> resolveStep(const PlanFunction &function, const PlanStep &step, const Call &call,
                                     const Placements &placed) const;
  Error runGraph(const PlanFunction &function, const Call &call);
  Error makeGraph(KeptGraph &kept, const PlanFunction &function, const Call &call);
  Error moveGraph(KeptGraph &kept, const PlanFunction &function, const Call &call);
  Error moveLaunches(DeviceGraph &graph, size_t before, const PlanFunction &function, const Call &call);
  bool canMove(const PlanFunction &function, const Call &call) const;
  bool usesStates(const PlanLaunch &planned) const;
  Error uploadArguments(const PlanFunction &function, const Call &call);
  Error launchStep(const PlanFunction &function, const KernelLaunch &launch);
  Error launchAll(const PlanFunction &function, const Call &call, const Placements &placed);
  Error runObserved(const PlanFunction &function, const Call &call);
  Error awaitWeights(const PlanLaunch &planned, std::optional<size_t> &awaited);
  Error runWhileLoading(const PlanFunction &function, const Call &call);

  Device &theDevice;
  Plan thePlan;
  Options capacity;
  CacheBounds boundsOfCache;
  KernelFiles files;
  LoadedKernels kernels;
  std::map<std::string, DeviceMemory, std::less<>> weights, states;
  std::map<std::string, DeviceMemory, std::less<>> arguments; ///< by FUNCTION/NAME
  Placements weightPlaces;
  DeviceMemory arena, counters; ///< of all lanes
  int64_t counterBytesOfLane = 0, inboxBytesOfLane = 0;
  std::map<const PlanStep *, DeviceMemory> mailboxes; ///< of steps that have some of their own, of all lanes
  /// Of steps whose mailboxes other ranks write to, too: where they are behind the words of the inbox.
  std::map<const PlanStep *, int64_t> mailboxOffsets;
  int64_t rank = 0;
  bool areProcesses = false;           ///< whether the other ranks are in other processes
  DeviceMemory inbox, stop;            ///< of a plan for several ranks, of all lanes; `stop` is the host's
  std::vector<DeviceMemory> imported;  ///< memory of other processes
  std::vector<char *> inboxes, arenas; ///< of all ranks, as this one's kernels reach them
  std::map<GraphKey, KeptGraph> graphs;
  Placements lastPlacement; ///< the placements of the call that ran last
  std::optional<Observer> observer;
  std::map<std::string, size_t, std::less<>> loadingOrder; ///< the order of the weights while they are being loaded
  size_t replica = 0;                                      ///< the number of this executor's device in the upload
  std::shared_ptr<WeightUpload> loading;                   ///< shared with the replicas; null when it has ended
};

} // namespace kiln
