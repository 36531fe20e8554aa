#include "runtime/generation/RequestQueue.h"

#include <numeric>

namespace kiln {

/// The order in which requests are handed out: among `window` requests at a time, those that may take longest first.
static std::vector<size_t> orderOf(ArrayRef<GenerationRequest> requests, size_t window) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t(0));
  // A token of a prompt costs little beside a step that gives a new one.
  auto cost = [&](size_t request) {
    constexpr uint64_t promptTokensOfAStep = 64;
    // A text that may stop at the context, or slide, may be asked for any number of tokens.
    return llvm::SaturatingMultiplyAdd(static_cast<uint64_t>(requests[request].options.maxNewTokens),
                                       promptTokensOfAStep, uint64_t(requests[request].prompt.size()));
  };
  for (size_t begin = 0; begin < order.size(); begin += window) {
    auto first = order.begin() + static_cast<ptrdiff_t>(begin);
    auto last = order.begin() + static_cast<ptrdiff_t>(std::min(begin + window, order.size()));
    std::stable_sort(first, last, [&](size_t a, size_t b) { return cost(a) > cost(b); });
  }
  return order;
}

RequestQueue::RequestQueue(ArrayRef<GenerationRequest> requests, size_t rows, const JobOptions &options,
                           OnFinished onFinished)
    : requests(requests), order(orderOf(requests, requests.size() > rows ? rows * 8 : 1)), options(options),
      onFinished(onFinished) {}

std::optional<size_t> RequestQueue::take() {
  std::lock_guard lock(mutex);
  if (wasStopped || next == order.size())
    return std::nullopt;
  return order[next++];
}

bool RequestQueue::isEmpty() {
  std::lock_guard lock(mutex);
  return wasStopped || next == order.size();
}

Error RequestQueue::deliver(size_t request, Generation result) {
  std::lock_guard lock(callbacks);
  return onFinished(request, std::move(result));
}

void RequestQueue::addToken(size_t request, int32_t token, StringRef text) {
  if (!options.onToken)
    return;
  std::lock_guard lock(callbacks);
  options.onToken(request, token, text);
}

bool RequestQueue::isCancelled() {
  if (!options.isCancelled)
    return false;
  std::lock_guard lock(callbacks);
  // The answer is kept: the question may be answered with yes only once.
  wasCancelled = wasCancelled || options.isCancelled();
  return wasCancelled;
}

void RequestQueue::stop() {
  std::lock_guard lock(mutex);
  wasStopped = true;
}

bool RequestQueue::isStopped() {
  std::lock_guard lock(mutex);
  return wasStopped;
}

} // namespace kiln
