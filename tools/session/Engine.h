//===- Engine.h - a model on the device that the user chose -----------------===//
#pragma once

#include "tools/session/DeviceNames.h"
#include "tools/session/ModelSource.h"

#include "runtime/execution/Executor.h"
#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

class RankGroup;

/// Called with the name of a value, as in the IR, and its elements in f32, row-major.
using ValueObserver = std::function<Error(StringRef name, ArrayRef<float> elements)>;

/// Generates and scores, and owns everything needed for that. The source must outlive it.
class Engine {
public:
  virtual ~Engine() = default;
  virtual LanguageModel &model() = 0;
  virtual Scorer &scorer() = 0;
  /// The executor of the plan, of several ranks the first one's; null for the reference executor.
  virtual Executor *executor() { return nullptr; }
  /// Calls `work` for the executors of all ranks at the same time, each in its thread. Error: that of the rank that
  /// failed first; the others wait for it no longer. Only of a plan.
  virtual Error onRanks(function_ref<Error(size_t rank, Executor &executor)> work) { return work(0, *executor()); }
  /// Of a rank that is a process, but not the first: makes the calls that the first one makes, until there are no more.
  virtual Error serve() { llvm_unreachable("this engine is no rank of a group"); }
  /// Ends the work, with its error if there is one: ranks that are processes wait for each other, or fail together. The
  /// engine is not used any more. Error: that of the rank that failed first.
  virtual Error finish(Error error) { return error; }
  /// With checkReference: the number of steps that agreed with the reference.
  virtual int64_t stepsChecked() const { return 0; }

  /// From now on, gives `observer` the results of steps by names that are wanted, as they are computed; its error ends
  /// the call. Not of several ranks, and not together with checkReference or traceKernels, which observe for
  /// themselves.
  virtual void observe(std::function<bool(StringRef name)>, ValueObserver) {
    llvm_unreachable("steps of several ranks are not observed");
  }
  virtual void stopObserving() {}

protected:
  /// The model of an executor's plan: `cached`, or `uncached` if the plan has no cache.
  static LanguageModel &modelOf(const Executor &executor, LanguageModel &cached, LanguageModel &uncached) {
    return executor.plan().entries.decode ? cached : uncached;
  }
};

struct EngineOptions {
  std::string device = "cpu";        ///< cpu, emulate, cuda:N; of several replicas, the first one's
  Device *opened = nullptr;          ///< not cpu: that device if it is open already; outlives the engine
  RankGroup *group = nullptr;        ///< of the processes that are the other ranks; outlives the engine
  int64_t batch = 1;                 ///< sequences at once
  std::vector<Entry> entries;        ///< the entries that will be called: prefill and decode, or score
  bool checkReference = false;       ///< compare every step with the reference executor
  bool checkAccesses = true;         ///< emulate: check every access of a kernel
  std::string schedule = "in-order"; ///< emulate: in-order, reversed, random:SEED
  bool needsKernels = false;         ///< the command does not run on cpu; for messages
  std::string kernelsFrom;           ///< not cpu: directory whose NAME.cu replace the plan's; empty: none
  Trace *trace = nullptr;            ///< where uploads become spans; outlives the engine
  bool traceKernels = false; ///< with a trace, not cpu: steps of the plan are spans, too; excludes checkReference
  /// emulate: called after every kernel that had to be compiled for the CPU
  std::function<void(size_t done, size_t all, StringRef kernel)> onKernelCompiled;
  /// Called with the reason for a slow start that can be avoided. Empty: it goes to standard error.
  std::function<void(StringRef)> onNote;
};

/// The use that openEngine makes of the reference executor, for the request to openModel.
ModelRequest::Reference referenceUse(const EngineOptions &options);

/// cpu: the reference executor. emulate: the plan's generated kernels, thread by thread on the CPU. cuda:N: the same
/// kernels on a GPU. For cpu, or if steps are compared with the reference, `source` must have its module. Error: errors
/// of opening the device, and of loading or compiling the plan.
Expected<std::unique_ptr<Engine>> openEngine(const ModelSource &source, const EngineOptions &options);

/// Like openEngine on each of some devices, options.device the first of them: the model is compiled once, and its
/// weights are read and packed once. Different threads may use different engines. For several devices, these are
/// emulate or cuda:N, and no step is compared with the reference. A model of several ranks gets one engine, which uses
/// all the devices; there are as many as ranks, or one if the others are in other processes. Error: a UsageError about
/// an option that ranks do not support.
Expected<std::vector<std::unique_ptr<Engine>>> openEngines(const ModelSource &source, const EngineOptions &options,
                                                           ArrayRef<std::string> devices);

/// Opens only the device `emulate` or `cuda:N`, with the options that concern it. Error: errors of opening it.
Expected<std::unique_ptr<Device>> openDevice(StringRef name, const EngineOptions &options);

/// A plan and the directory with its files.
struct LocatedPlan {
  std::string directory;
  Plan plan;
};

/// The plan that openEngine would run; a model is compiled into the cache. Needs no weights. Error: errors of
/// compiling, writing or reading it.
Expected<LocatedPlan> locatePlan(const ModelSource &source);

} // namespace kiln
