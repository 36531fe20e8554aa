//===- PlanTokenStream.h - tokens chosen on the device ----------------------===//
#pragma once

#include "runtime/generation/speculation/DeviceDraft.h"
#include "runtime/generation/speculation/Draft.h"
#include "runtime/generation/speculation/DraftPace.h"

#include <deque>

namespace kiln {

/// Keeps the device a few steps ahead of the host. Choices for rows that turn out to have ended are discarded. A row
/// that starts while the device is ahead is enqueued behind what the device has to do, and its first token comes
/// together with those of the last step so far: so starting a row never makes the device wait for the host. The batch
/// shrinks to the next smaller bucket when enough rows have ended: active rows move into the bucket's places.
///
/// With a draft, a step is a pass (DeviceDraft.h), which chooses one token or more for each row. All rows get as many
/// guesses as the row that is to get most. Near the end of a row's context, where a pass might not fit any more, and
/// while no row is to get guesses, steps decode one token.
class PlanTokenStream : public TokenStream {
public:
  /// All arguments must outlive the stream.
  PlanTokenStream(Executor &executor, std::unique_ptr<DeviceSampler> &sampler, const StreamOptions &options)
      : executor(executor), sampler(sampler), hostDraft(options.draft), draftLength(options.draftLength),
        rows(options.rows) {}

  Error start(ArrayRef<RowStart> starts) override;
  Error next(const BitVector &active, MutableArrayRef<int32_t> tokens) override;
  ArrayRef<float> logits(size_t row) const override { return {}; }
  const SpeculationCounts *speculation(size_t row) const override { return draft ? &rows[row].counts : nullptr; }

private:
  /// Choices of a row that were enqueued on the device: one, or those of a pass.
  struct Step {
    int64_t number; ///< of the stream; a started row's first choice counts as of the last step before it
    int64_t place;
    uint32_t choice; ///< the first one
    int64_t count = 1;
    int64_t guesses = 0;
    bool isStart = false; ///< of the prompt

    /// Choices that are made unless the row ends.
    int64_t certain() const { return guesses > 0 ? 1 : count; }
  };
  struct Row {
    int64_t place = -1;        ///< in the device's batch; -1: none
    uint64_t taken = 0;        ///< tokens that `next` has returned since the row's start
    uint64_t limit = 0;        ///< tokens after which the row ends or starts again
    std::deque<Step> steps;    ///< not read yet
    std::deque<int32_t> ready; ///< tokens that were read and not yet taken

    // With a draft:
    RowStart text;                  ///< the row's start, with all tokens that were read
    DraftPace pace = DraftPace({}); ///< of the row
    SpeculationCounts counts = {};  ///< of the row
    bool isBehind = false;          ///< the draft has missed tokens

    /// Tokens that are known, and those that are certain to come.
    uint64_t expected() const {
      uint64_t coming = 0;
      for (const Step &step : steps)
        coming += static_cast<uint64_t>(step.certain());
      return taken + ready.size() + coming;
    }
  };

  Error open();
  std::vector<RowStart> place(ArrayRef<RowStart> starts);
  Error forNeighbours(ArrayRef<RowStart> starts, function_ref<Error(int64_t place, ArrayRef<RowStart>)> body) const;
  Error prefill(ArrayRef<RowStart> starts);
  Error growTo(int64_t places);
  Error shrink();
  Error read(Row &row);
  int64_t guessesOfNextStep() const;
  Error catchUp();
  Error step();
  Error workAhead();
  Error awaitFirst(ArrayRef<RowStart> starts);

  Executor &executor;
  std::unique_ptr<DeviceSampler> &sampler; ///< made when first needed; its graphs serve the streams after this one
  Draft *hostDraft;                        ///< null: no speculation
  DraftLength draftLength;
  DeviceDraft *draft = nullptr; ///< its part on the device
  std::vector<Row> rows;
  bool isOpen = false;
  int64_t bucket = 0; ///< the number of places that a step decodes
  int64_t steps = 0;  ///< enqueued so far
};

} // namespace kiln
