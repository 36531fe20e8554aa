//===- Draft.h - guessing the next tokens -----------------------------------===//
#pragma once

#include "runtime/generation/speculation/DeviceDraft.h"

namespace kiln {

/// A row that wants guesses.
struct GuessRequest {
  ArrayRef<int32_t> text; ///< all tokens of the row that the model may look at; empty: the row wants none
  uint64_t sequence = 0;  ///< of the row, for sampling
  uint64_t position = 0;  ///< of the first guess in its sequence, for sampling
  int64_t count = 0;      ///< the most guesses
};

/// Guesses what a model will choose. Guesses decide about time only, never about tokens.
class Draft {
public:
  virtual ~Draft() = default;

  /// Guesses up to `count` tokens behind each text; `guesses` has an empty entry for each request. A row's text is that
  /// of the row's last request with other tokens behind some place, or a new one.
  virtual Error guess(ArrayRef<GuessRequest> requests, MutableArrayRef<std::vector<int32_t>> guesses) = 0;

  /// Whether it can also guess on this device, without the host.
  virtual bool isFor(const Device &device) const { return false; }
  /// Its part on the sampler's device, for which it is. The sampler must outlive it. Error: of allocating
  /// memory.
  virtual Expected<DeviceDraft *> onDevice(DeviceSampler &sampler) { llvm_unreachable("a draft of the host only"); }
  /// Drops that part; the sampler may go.
  virtual void leaveDevice() {}
};

/// Takes the longest ending of a text that has occurred in it before, up to 8 tokens, and guesses that it goes on as it
/// did then; of several such places, as at the last one. (Prompt lookup; Saxena 2023.)
class NgramDraft : public Draft {
public:
  Error guess(ArrayRef<GuessRequest> requests, MutableArrayRef<std::vector<int32_t>> guesses) override;
  bool isFor(const Device &device) const override { return true; }
  Expected<DeviceDraft *> onDevice(DeviceSampler &sampler) override;
  void leaveDevice() override { device.reset(); }

private:
  std::unique_ptr<DeviceDraft> device;
};

/// Guesses what another model with the same vocabulary would choose with the same noise.
class ModelDraft : public Draft {
public:
  /// The model must outlive the draft, and nothing else may use it meanwhile. `executor`, if any, is the model's.
  ModelDraft(LanguageModel &model, const SamplingParams &sampling, Executor *executor = nullptr)
      : model(model), sampler(sampling), executor(executor) {}

  /// Error: those of the model; logits that are not finite.
  Error guess(ArrayRef<GuessRequest> requests, MutableArrayRef<std::vector<int32_t>> guesses) override;
  bool isFor(const Device &device) const override;
  Expected<DeviceDraft *> onDevice(DeviceSampler &sampler) override;
  void leaveDevice() override { device.reset(); }

private:
  Error catchUp(ArrayRef<GuessRequest> requests);
  int64_t countOf(const GuessRequest &request) const;

  LanguageModel &model;
  Sampler sampler;
  Executor *executor;
  std::unique_ptr<DeviceDraft> device;
  // One entry per row.
  std::vector<std::vector<int32_t>> held;    ///< the tokens that the model holds
  std::vector<std::vector<int32_t>> pending; ///< further tokens of the text
  std::vector<std::vector<float>> logits;    ///< that follow `held`
};

} // namespace kiln
