//===- PretendedDraft.h - a draft with a known rate of right guesses ------------===//
#pragma once

#include "runtime/generation/speculation/Draft.h"

namespace kiln {

/// Lets a draft guess on the device, and replaces its guesses by ones that are right with a given probability, by the
/// text that will come. So speculation can be timed without the weights that it is for.
class PretendedDraft : public Draft {
  class OnDevice;

public:
  /// The draft must outlive this.
  PretendedDraft(Draft &draft, double acceptance);
  ~PretendedDraft() override;

  /// The prompt and what follows it, the same in all rows, and the seed by which guesses are right or wrong. Streams
  /// that are opened later use them.
  void know(ArrayRef<int32_t> tokens, int32_t chosenSeed = 0) {
    text = tokens.vec();
    seed = chosenSeed;
  }

  /// Guesses as the draft does.
  Error guess(ArrayRef<GuessRequest> requests, MutableArrayRef<std::vector<int32_t>> guesses) override {
    return draft.guess(requests, guesses);
  }
  bool isFor(const Device &device) const override { return draft.isFor(device); }
  Expected<DeviceDraft *> onDevice(DeviceSampler &sampler) override;

private:
  Draft &draft;
  double acceptance;
  std::vector<int32_t> text;
  int32_t seed = 0;
  std::unique_ptr<OnDevice> device;
};

} // namespace kiln
