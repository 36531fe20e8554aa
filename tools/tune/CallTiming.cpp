#include "tools/tune/CallTiming.h"

namespace kiln {

/// The calls whose mean is the time of a call.
static SmallVector<CallShape, 2> measuredFor(const CallShape &call) {
  if (call.entry != Entry::Decode)
    return {call};
  return {{call.entry, call.batch, call.length / 4}, {call.entry, call.batch, call.length + call.length * 3 / 4}};
}

Expected<double> timeCall(Executor &executor, const CallShape &call, const BenchmarkOptions &options) {
  const SmallVector<CallShape, 2> shapes = measuredFor(call);
  double mean = 0;
  for (const CallShape &shape : shapes) {
    auto measured = measureCall(executor, shape, options);
    if (!measured)
      return measured.takeError();
    mean += measured->median() / static_cast<double>(shapes.size());
  }
  return mean;
}

Expected<TimePair> timeInTurns(Executor &first, Executor &second, const CallShape &call,
                               const BenchmarkOptions &options) {
  const SmallVector<CallShape, 2> shapes = measuredFor(call);
  TimePair mean = {};
  for (const CallShape &shape : shapes) {
    TimePair least = {INFINITY, INFINITY};
    for (int turn = 0; turn < 6; ++turn) {
      auto measured = measureCall(turn % 2 ? second : first, shape, options);
      if (!measured)
        return measured.takeError();
      least[turn % 2] = std::min(least[turn % 2], measured->median());
    }
    for (auto [sum, seconds] : llvm::zip(mean, least))
      sum += seconds / static_cast<double>(shapes.size());
  }
  return mean;
}

} // namespace kiln
