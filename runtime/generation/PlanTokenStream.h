//===- PlanTokenStream.h - tokens chosen on the device ----------------------===//
#pragma once

#include "runtime/generation/DeviceSampler.h"

#include <deque>

namespace kiln {

/// Keeps the device a few steps ahead of the host. Choices for rows that turn out to have ended are discarded. The
/// batch shrinks to the next smaller bucket when enough rows have ended: active rows move into the bucket's places.
class PlanTokenStream : public TokenStream {
public:
  /// All arguments must outlive the stream.
  PlanTokenStream(Executor &executor, std::unique_ptr<DeviceSampler> &sampler, const StreamOptions &options)
      : executor(executor), sampler(sampler), options(options) {}

  Error start(ArrayRef<std::vector<int32_t>> prompts) override;
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return {}; }

private:
  /// A choice that was enqueued on the device.
  struct Choice {
    int64_t place;
    uint32_t number;
  };
  struct Row {
    int64_t place = -1;         ///< in the device's batch; -1: none
    uint64_t start = 0;         ///< tokens of its first prompt
    uint64_t taken = 0;         ///< tokens that `next` has returned
    uint64_t limit = 0;         ///< tokens after which the row ends or starts again
    std::deque<Choice> choices; ///< not taken yet
  };

  Error startAll(ArrayRef<std::vector<int32_t>> prompts);
  Error restart(size_t row, const std::vector<int32_t> &prompt);
  uint64_t limitOf(const Row &row, const std::vector<int32_t> &prompt) const;
  RowStart startOf(size_t row) const;
  Error shrink();
  Error step();
  Error workAhead();

  Executor &executor;
  std::unique_ptr<DeviceSampler> &sampler; ///< made when first needed; its graphs serve the streams after this one
  StreamOptions options;
  std::vector<Row> rows;
  int64_t bucket = 0; ///< the number of places that a step decodes
};

} // namespace kiln
