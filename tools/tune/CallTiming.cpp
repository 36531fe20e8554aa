#include "tools/tune/CallTiming.h"

namespace kiln {

/// The lengths at which a call is timed.
static SmallVector<int64_t, 2> lengthsOf(const CallShape &call) {
  if (call.entry != Entry::Decode)
    return {call.length};
  return {call.length / 4, call.length + call.length * 3 / 4};
}

/// The mean of time(length) over the lengths of a call, element by element.
template <size_t N>
static Expected<std::array<double, N>> meanOverLengths(const CallShape &call,
                                                       function_ref<Expected<std::array<double, N>>(int64_t)> time) {
  SmallVector<int64_t, 2> lengths = lengthsOf(call);
  std::array<double, N> mean = {};
  for (int64_t length : lengths) {
    auto times = time(length);
    if (!times)
      return times.takeError();
    for (auto [sum, seconds] : llvm::zip(mean, *times))
      sum += seconds / static_cast<double>(lengths.size());
  }
  return mean;
}

Expected<double> timeCall(Executor &executor, const CallShape &call, const BenchmarkOptions &options) {
  auto time = [&](int64_t length) -> Expected<std::array<double, 1>> {
    auto measured = measureCall(executor, {call.entry, call.batch, length}, options);
    if (!measured)
      return measured.takeError();
    return std::array<double, 1>{measured->median()};
  };
  auto mean = meanOverLengths<1>(call, time);
  if (!mean)
    return mean.takeError();
  return mean->front();
}

Expected<TimePair> timeInTurns(Executor &first, Executor &second, const CallShape &call,
                               const BenchmarkOptions &options) {
  return meanOverLengths<2>(call, [&](int64_t length) -> Expected<TimePair> {
    TimePair least = {INFINITY, INFINITY};
    for (int turn = 0; turn < 6; ++turn) {
      auto measured = measureCall(turn % 2 ? second : first, {call.entry, call.batch, length}, options);
      if (!measured)
        return measured.takeError();
      least[turn % 2] = std::min(least[turn % 2], measured->median());
    }
    return least;
  });
}

} // namespace kiln
