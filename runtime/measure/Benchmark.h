//===- Benchmark.h - timing a plan ------------------------------------------===//
#pragma once

#include "runtime/measure/PhaseTimes.h"

#include <condition_variable>
#include <mutex>

namespace kiln {

/// The median; 0 without samples.
double medianOf(std::vector<double> samples);

/// The sample above a share of the others, from 0 to 1: of 0 the least, of 0.5 the median, of 1 the largest. 0 without
/// samples.
double percentileOf(std::vector<double> samples, double share);

/// Adds to an object what is known of a time: `median_us`, `min_us`, `p90_us`, `p99_us`, `max_us`, and every sample,
/// `samples_s`. Nothing without samples.
void addTimes(json::Object &object, ArrayRef<double> seconds);

/// The result of a measurement, with every sample.
struct Measurement {
  std::string what;            ///< `decode B=1 position=64`, or a kernel's name
  std::vector<double> seconds; ///< one per sample
  int64_t launches = 0;        ///< kernels in one run
  StepCost cost = {};          ///< of one run
  /// Of a kernel that was timed and has phases, in their order.
  std::vector<PhaseShare> phases = {};

  double median() const { return medianOf(seconds); }
};

struct BenchmarkOptions {
  int64_t samples = 20;
  int64_t runsPerSample = 10;
  int64_t warmUp = 5; ///< runs before the first sample, at least
  /// So many seconds of runs, at least, before the first sample: under load, a GPU's clock falls to what its limit of
  /// power allows.
  double warmUpSeconds = 0;
  /// The limit in seconds for all runs together: runs that would take longer are reduced, to three samples of one run
  /// at least. 0: no limit.
  double mostSeconds = 0;
  /// Called after each sample with the kernel's or the call's name and the seconds of all its runs together.
  std::function<void(StringRef what, double seconds)> onSample = {};
  /// Of a model of several ranks, which must all run the same calls: gives all of them the same seconds, the longest.
  std::function<double(double seconds)> agree = {};
};

/// Numbers on which the ranks of a model agree, each in a thread of its own.
class RankAgreement {
public:
  explicit RankAgreement(size_t ranks) : ranks(ranks) {}

  /// Waits until all ranks have called this as often as the caller, and returns the largest of their numbers; at once
  /// the caller's, if it was abandoned.
  double largest(double number);
  /// Ends all waiting.
  void abandon();

private:
  size_t ranks;
  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  size_t waiting = 0;
  uint64_t rounds = 0;
  double soFar = 0, agreed = 0;
  bool isAbandoned = false;
};

/// A call to be measured.
struct CallShape {
  Entry entry = Entry::Prefill;
  int64_t batch = 1;
  /// @prefill, @score: tokens of each row; @decode, @generate: tokens in the cache before the one that the row gets.
  int64_t length = 1;

  bool continues() const { return entry == Entry::Decode || entry == Entry::Generate; }
  int64_t tokens() const { return continues() ? 1 : length; }
  int64_t position() const { return continues() ? length : 0; }
  std::string str() const; ///< `prefill B=8 T=1024`, `decode B=1 position=64`
  auto operator<=>(const CallShape &) const = default;
};

/// Launches, bytes and operations of one call, computed from the plan alone. Error: the plan does not have the entry,
/// or cannot run such a call.
Expected<Measurement> countCall(const Plan &plan, const CallShape &shape);

/// Counts each kernel of a call, by name.
Expected<std::vector<Measurement>> countKernels(const Plan &plan, const CallShape &shape);
/// Counts each kernel of any function of a plan. Error: dims past the plan's bounds.
Expected<std::vector<Measurement>> countKernels(const Plan &plan, const PlanFunction &function, const DimBinding &dims,
                                                int64_t position);

/// `count` arbitrary token ids below the vocabulary size.
std::vector<int32_t> sampleIds(int64_t count, int64_t vocabulary);

/// A call with arguments of the right sizes: arbitrary tokens, full lengths, the same position for all. The plan must
/// have the entry, @prefill, @decode or @score, and must outlive the call.
struct SampleCall {
  SampleCall(const Plan &plan, const CallShape &shape);
  SampleCall(const SampleCall &) = delete; ///< the call refers to the arguments

  std::vector<int32_t> ids, perRow;
  Executor::Call call;
};

/// Times launches with an L2 cache of lines that they do not need. These were read, not written: written ones leave
/// through the memory while the launches use it, up to 7 µs on an H200.
class KernelTimer {
public:
  /// The device must outlive the timer. Error: no memory for sweeping.
  static Expected<KernelTimer> create(Device &device);

  /// The seconds of all the launches together, one number per sample. `what` is for options.onSample.
  Expected<std::vector<double>> time(std::vector<KernelLaunch> launches, const BenchmarkOptions &options,
                                     StringRef what = "");

private:
  Error sweepCache();
  KernelTimer(Device &device, DeviceMemory sweep) : device(&device), sweep(std::move(sweep)) {}

  Device *device;
  DeviceMemory sweep; ///< larger than any L2 cache, on a device whose times are meaningful
};

/// Times one call whose arguments are already on the device.
Expected<Measurement> measureCall(Executor &executor, const CallShape &shape, const BenchmarkOptions &options);

/// Times each kernel of a call: all its launches together, so that every layer's weights are read, with a cold L2
/// cache. Then measures its phases, if it has some.
Expected<std::vector<Measurement>> measureKernels(Executor &executor, const CallShape &shape,
                                                  const BenchmarkOptions &options);

} // namespace kiln
