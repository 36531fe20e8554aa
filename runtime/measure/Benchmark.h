//===- Benchmark.h - timing a plan ------------------------------------------===//
#pragma once

#include "runtime/execution/Executor.h"

namespace kiln {

/// 0 without samples.
double medianOf(std::vector<double> samples);

/// What was measured, with every sample.
struct Measurement {
  std::string what;            ///< `decode B=1 position=64`, or a kernel's name
  std::vector<double> seconds; ///< one a sample
  int64_t launches = 0;        ///< kernels in one run
  StepCost cost = {};          ///< of one run

  double median() const { return medianOf(seconds); }
};

struct BenchmarkOptions {
  int64_t samples = 20;
  int64_t runsPerSample = 10;
  int64_t warmUp = 5;
  /// Runs that would take longer, together, are fewer: three samples of one run at least. 0: no limit.
  double mostSeconds = 0;
};

/// The dims of a call at batch `batch`: of @decode, one token a sequence, of other functions `length` tokens.
DimBinding callDims(StringRef function, int64_t batch, int64_t length);

/// Launches, bytes and operations of one call with `position` tokens in the cache before, from the plan alone. Error:
/// dims past the plan's bounds, or no such function.
Expected<Measurement> countCall(const Plan &plan, StringRef function, const DimBinding &dims, int64_t position);

/// The same for each kernel of a call, by name.
Expected<std::vector<Measurement>> countKernels(const Plan &plan, StringRef function, const DimBinding &dims,
                                                int64_t position);

/// A call with arguments of the right sizes: tokens of no meaning, full lengths, one position for all. `length` tokens
/// a sequence; of @decode one, at `position`.
struct SampleCall {
  SampleCall(StringRef function, int64_t batch, int64_t length, int64_t position);
  SampleCall(const SampleCall &) = delete; ///< the call refers to the arguments

  std::vector<int32_t> ids, perRow;
  Executor::Call call;
};

/// Times launches, with the L2 cache swept before.
class KernelTimer {
public:
  /// The device must outlive the timer. Error: no memory for sweeping.
  static Expected<KernelTimer> create(Device &device);

  /// Seconds of all of the launches, of each sample.
  Expected<std::vector<double>> time(std::vector<KernelLaunch> launches, const BenchmarkOptions &options);

private:
  KernelTimer(Device &device, DeviceMemory sweep) : device(&device), sweep(std::move(sweep)) {}

  Device *device;
  DeviceMemory sweep; ///< larger than any L2 cache, on a device whose times mean anything
};

/// Times one call of a function, arguments already on the device, at batch `batch` and `tokens` tokens a sequence; for
/// @decode at `position`.
Expected<Measurement> measureCall(Executor &executor, StringRef function, int64_t batch, int64_t tokens,
                                  int64_t position, const BenchmarkOptions &options);

/// Times each kernel of a call: all its launches together, so that every layer's weights are read, with the L2 cache
/// swept before.
Expected<std::vector<Measurement>> measureKernels(Executor &executor, StringRef function, int64_t batch, int64_t tokens,
                                                  int64_t position, const BenchmarkOptions &options);

} // namespace kiln
