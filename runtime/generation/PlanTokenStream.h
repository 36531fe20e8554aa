//===- PlanTokenStream.h - tokens chosen on the device ----------------------===//
#pragma once

#include "runtime/generation/DeviceSampler.h"

#include <deque>

namespace kiln {

/// Keeps the device a few steps ahead of the host. Choices for rows that turn out to have ended are discarded. A row
/// that starts while the device is ahead is enqueued behind what the device has to do, and its first token comes
/// together with those of the last step so far: so starting a row never makes the device wait for the host. The batch
/// shrinks to the next smaller bucket when enough rows have ended: active rows move into the bucket's places.
class PlanTokenStream : public TokenStream {
public:
  /// All arguments must outlive the stream.
  PlanTokenStream(Executor &executor, std::unique_ptr<DeviceSampler> &sampler, const StreamOptions &options)
      : executor(executor), sampler(sampler), rows(options.rows) {}

  Error start(ArrayRef<RowStart> starts) override;
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return {}; }

private:
  /// A choice that was enqueued on the device.
  struct Choice {
    int64_t place;
    uint32_t number;
    int64_t step; ///< of the stream; a started row's first choice counts as of the last step before it
  };
  struct Row {
    int64_t place = -1;         ///< in the device's batch; -1: none
    uint64_t taken = 0;         ///< tokens that `next` has returned since the row's start
    uint64_t limit = 0;         ///< tokens after which the row ends or starts again
    std::deque<Choice> choices; ///< not taken yet
  };

  Error open();
  std::vector<RowStart> place(ArrayRef<RowStart> starts);
  Error prefill(ArrayRef<RowStart> starts);
  Error growTo(int64_t places);
  Error shrink();
  Error step();
  Error workAhead();
  Error awaitFirst(ArrayRef<RowStart> starts);

  Executor &executor;
  std::unique_ptr<DeviceSampler> &sampler; ///< made when first needed; its graphs serve the streams after this one
  std::vector<Row> rows;
  bool isOpen = false;
  int64_t bucket = 0; ///< the number of places that a step decodes
  int64_t steps = 0;  ///< enqueued so far
};

} // namespace kiln
