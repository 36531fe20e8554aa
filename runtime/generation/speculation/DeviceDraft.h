//===- DeviceDraft.h - guessing and checking on the device --------------------===//
//
// A pass is one graph: the launches that guess, @verify, and @accept, which chooses tokens as long as guesses are right
// and leaves everything for the next pass. So the host may enqueue passes before it has read the tokens of earlier
// ones. What a draft does for the next pass only is a branch beside the check.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/generation/sampling/DeviceSampler.h"

namespace kiln {

/// Guesses for rows of a sampler, and their passes. Rows are places in the device's batch.
class DeviceDraft {
public:
  /// The sampler, which is made for passes, must outlive the draft.
  explicit DeviceDraft(DeviceSampler &sampler) : sampler(sampler) {}
  virtual ~DeviceDraft() = default;

  const DeviceSampler &target() const { return sampler; }

  /// Takes note that rows firstRow, firstRow + 1, ... hold these tokens from now on.
  virtual Error start(int64_t firstRow, ArrayRef<RowStart> starts) = 0;
  /// Whether steps without guesses leave the draft behind: its rows must then be started again before they guess.
  virtual bool fallsBehind() const = 0;
  /// Copies row `from` to row `to`; `from` is not used afterwards.
  virtual Error moveRow(int64_t from, int64_t to) { return Error::success(); }

  /// Makes the graph of a pass of `rows` rows, with so many guesses for each, 1 to passTokens() - 1, unless it exists.
  Error preparePass(int64_t rows, int64_t guesses);
  /// Enqueues a pass: passTokens() choices for each row.
  Error pass(int64_t rows, int64_t guesses);

  /// The launches that guess, in order.
  virtual Expected<std::vector<KernelLaunch>> launches(int64_t rows, int64_t guesses) = 0;
  /// What the draft does behind these for the next pass only: it runs beside the check.
  virtual Expected<std::vector<KernelLaunch>> afterwork(int64_t rows) { return std::vector<KernelLaunch>(); }
  /// The launches that check the guesses.
  Expected<std::vector<KernelLaunch>> checkLaunches(int64_t rows);

protected:
  using Launches = std::vector<KernelLaunch>;

  /// Appends the launches of a call, if they could be made.
  static Error append(Launches &all, Expected<Launches> more);

  DeviceSampler &sampler;

private:
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<DeviceGraph>> graphs; ///< by rows and guesses
};

/// NgramDraft on the device.
class NgramDeviceDraft : public DeviceDraft {
public:
  using DeviceDraft::DeviceDraft;

  Error start(int64_t firstRow, ArrayRef<RowStart> starts) override { return sampler.uploadText(firstRow, starts); }
  bool fallsBehind() const override { return false; }
  Expected<std::vector<KernelLaunch>> launches(int64_t rows, int64_t guesses) override;
};

/// ModelDraft on the device.
class ModelDeviceDraft : public DeviceDraft {
public:
  /// `draft` is on the sampler's device and must outlive the draft; nothing else may use it meanwhile.
  static Expected<std::unique_ptr<DeviceDraft>> create(DeviceSampler &sampler, Executor &draft);

  Error start(int64_t firstRow, ArrayRef<RowStart> starts) override;
  bool fallsBehind() const override { return true; }
  Error moveRow(int64_t from, int64_t to) override { return own->moveRow(from, to); }
  Expected<std::vector<KernelLaunch>> launches(int64_t rows, int64_t guesses) override;
  Expected<std::vector<KernelLaunch>> afterwork(int64_t rows) override;

private:
  ModelDeviceDraft(DeviceSampler &sampler, std::unique_ptr<DeviceSampler> own)
      : DeviceDraft(sampler), own(std::move(own)) {}

  std::unique_ptr<DeviceSampler> own; ///< of the draft
};

} // namespace kiln
