//===- Engine.h - a model on the device that the user chose -----------------===//
#pragma once

#include "tools/session/ModelSource.h"

#include "runtime/execution/Executor.h"
#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/Perplexity.h"

namespace kiln {

/// Generates and scores; owns whatever that takes. The source must outlive it.
class Engine {
public:
  virtual ~Engine() = default;
  virtual LanguageModel &model() = 0;
  virtual Scorer &scorer() = 0;
  /// What runs the plan; null for the reference executor.
  virtual Executor *executor() { return nullptr; }
  /// With checkReference: how many steps were found to agree.
  virtual int64_t stepsChecked() const { return 0; }
};

struct EngineOptions {
  std::string device = "cpu";        ///< cpu, emulate, cuda:N
  int64_t batch = 1;                 ///< sequences at once
  std::vector<Entry> entries;        ///< that will be called: prefill and decode, or score
  bool checkReference = false;       ///< compare every step with the reference executor
  bool checkAccesses = true;         ///< emulate: check every access of a kernel
  std::string schedule = "in-order"; ///< emulate: in-order, reversed, random:SEED
  bool needsKernels = false;         ///< the command takes no cpu; for messages
  std::string kernelsFrom;           ///< not cpu: directory whose NAME.cu replace the plan's; empty: none
  /// emulate: called after every kernel that had to be compiled for the CPU
  std::function<void(size_t done, size_t all, StringRef kernel)> onKernelCompiled;
};

/// The device that a name of the command line means: auto is the first GPU, and without one the CPU's reference
/// executor. Other names stay.
std::string resolveDevice(StringRef name);

/// The same for a command that needs a device with kernels. Error: a UsageError where it is the reference executor.
Expected<std::string> resolveKernelDevice(StringRef command, StringRef name);

/// What openEngine needs the reference executor for, to be said to openModel.
ModelRequest::Reference referenceUse(const EngineOptions &options);

/// cpu: the reference executor. emulate: the plan's generated kernels, thread by thread on the CPU. cuda:N: the same on
/// a GPU. `source` has its module where that is cpu, or steps are compared with the reference. Error: what opening the
/// device, loading or compiling the plan reports.
Expected<std::unique_ptr<Engine>> openEngine(const ModelSource &source, const EngineOptions &options);

/// The device `emulate` or `cuda:N` alone, with the options that are about it. Error: what opening it reports.
Expected<std::unique_ptr<Device>> openDevice(StringRef name, const EngineOptions &options);

/// A plan and the directory with its files.
struct LocatedPlan {
  std::string directory;
  Plan plan;
};

/// The plan that openEngine would run; a model is compiled into the cache. Needs no weights. Error: what compiling,
/// writing or reading it reports.
Expected<LocatedPlan> locatePlan(const ModelSource &source);

} // namespace kiln
