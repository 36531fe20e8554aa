#include "ops/Tensor.h"

#include "support/process/Parallel.h"

namespace kiln {

void parallelRows(int64_t count, int64_t workPerItem, function_ref<void(int64_t)> body) {
  constexpr int64_t worthAThread = 1 << 14;
  if (count * workPerItem < 2 * worthAThread) {
    for (int64_t i = 0; i < count; ++i)
      body(i);
    return;
  }
  int64_t perChunk = std::max<int64_t>(1, worthAThread / std::max<int64_t>(1, workPerItem));
  int64_t chunks = (count + perChunk - 1) / perChunk;
  parallelFor(chunks, [&](size_t chunk) {
    int64_t end = std::min<int64_t>(count, (chunk + 1) * perChunk);
    for (int64_t i = chunk * perChunk; i < end; ++i)
      body(i);
  });
}

} // namespace kiln
