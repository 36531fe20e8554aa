//===- RungRunner.h - compiles, checks and times a rung ---------------------===//
#pragma once

#include "Rungs.h"

#include "../CommandLine.h"
#include "../CompiledPlan.h"
#include "../Engine.h"
#include "../KeptWeights.h"

#include "kernels/Target.h"

namespace kiln {

/// How far logits are from those of the reference executor in fp32.
struct LogitError {
  double largest = 0; ///< difference
  double rootMeanSquare = 0;
  double allowed = 0; ///< for the largest: what the rung's arithmetic explains
};

/// What a rung was found to be. Quantities are of all that is timed, together.
struct RungResult {
  std::string failure;         ///< why there is nothing else; empty: it ran
  LogitError error;            ///< of the logits of its prompts
  std::vector<double> seconds; ///< samples; none on a device whose times say nothing
  double callSeconds = 0;      ///< the whole evaluation of the prompts; 0: not timed
  int64_t launches = 0, bytes = 0, flops = 0;
  double limitSeconds = 0;   ///< that bytes and operations of the kernels, one by one, allow (Target::rooflineSeconds)
  double arithmeticRate = 0; ///< operations per second that the target has for its type
  std::optional<double> perplexity;

  // Of the kernel that most of the time goes into.
  std::string kernel; ///< empty: a library
  KernelResources resources;
  int64_t sharedBytes = 0; ///< static and dynamic
  double occupancy = 0;

  double median() const;
  bool isWrong() const { return !failure.empty() || !(error.largest <= error.allowed); }
};

/// A part whose rungs were run, in their order.
struct MeasuredPart {
  const LadderPart *part = nullptr;
  std::vector<RungResult> results;

  /// What there is to say about a rung: what went wrong, or why it is slower than the one below; else empty.
  std::string note(size_t rung) const;
};

/// The logits that rungs are compared with.
using Logits = std::vector<std::vector<float>>;

class RungRunner {
public:
  /// Error: of the model, its weights, the text, or opening the device.
  static Expected<std::unique_ptr<RungRunner>> create(const LadderCommand &command);
  ~RungRunner();

  /// Compiles, checks and times a rung; what goes wrong is in the result.
  RungResult run(const LadderPart &part, const Rung &rung);

  /// Compiles a rung's kernels into the cache, so that `run` finds them there. May be called by another thread.
  void prepare(const LadderPart &part, const Rung &rung) const;

  StringRef deviceName() const { return name; }
  int64_t context() const { return modelContext; } ///< tokens
  const Target &target() const { return *theTarget; }
  /// Whether the device's times mean anything.
  bool isTimed() const { return timed; }

private:
  struct Loaded;

  explicit RungRunner(const LadderCommand &command) : command(command) {}

  int64_t newTokens(const LadderPart &part) const;
  Expected<CompileRequest> request(const LadderPart &part, const Rung &rung) const;
  Expected<RungResult> tryRung(const LadderPart &part, const Rung &rung);
  Expected<Loaded> load(const CompileRequest &request, const WeightSource &weights, Executor::Options capacity);
  Expected<const Logits *> reference(const LadderPart &part, const Rung &rung);
  Error compare(Loaded &loaded, const LadderPart &part, const Logits &expected, LogitError &error);
  Error timeSteps(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeCall(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeGeneration(Loaded &loaded, const LadderPart &part, RungResult &result);
  Error timeFirstToken(const CompileRequest &request, const LadderPart &part, RungResult &result);
  Error findKernel(Loaded &loaded, ArrayRef<KernelLaunch> launches, RungResult &result);
  Expected<double> perplexity(const LadderPart &part, const Rung &rung);

  const LadderCommand &command;
  std::string work; ///< directory of plans, removed in the end
  std::string name;
  bool timed = true;
  int64_t modelContext = 0;
  const Target *theTarget = nullptr;
  std::unique_ptr<Device> device;
  std::optional<KernelTimer> timer;
  std::unique_ptr<KeptWeights> weights;
  std::map<std::string, Logits> references;
  std::optional<ModelSource> scored; ///< the model of perplexities
  std::vector<int32_t> text;
};

} // namespace kiln
