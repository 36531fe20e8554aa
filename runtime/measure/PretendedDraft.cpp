#include "runtime/measure/PretendedDraft.h"

#include <cmath>

namespace kiln {

class PretendedDraft::OnDevice : public DeviceDraft {
public:
  OnDevice(DeviceSampler &sampler, DeviceDraft &draft) : DeviceDraft(sampler), draft(draft) {}

  /// Uploads what is known, for all rows. `odds` are in units of 2^-31.
  Error know(ArrayRef<int32_t> text, int32_t odds, int32_t seed) {
    const Executor &executor = sampler.executor();
    const PretendEntry &names = *executor.plan().entries.pretend;
    auto context = static_cast<size_t>(executor.plan().model.context);
    std::vector<int32_t> row(text.begin(), text.begin() + std::min(text.size(), context));
    row.resize(context);
    std::vector<int32_t> all;
    for (int64_t i = 0; i < executor.options().batch; ++i)
      llvm::append_range(all, row);
    std::vector<int32_t> allOdds;
    for (int64_t i = 0; i < executor.options().batch; ++i)
      llvm::append_range(allOdds, ArrayRef{odds, seed});
    for (auto [name, values] : {std::pair(&names.known, &all), std::pair(&names.odds, &allOdds)})
      if (Error error = executor.device().upload(sampler.memoryOf(*name), values->data(),
                                                 static_cast<int64_t>(values->size() * sizeof(int32_t))))
        return error;
    return Error::success();
  }

  Error start(int64_t firstRow, ArrayRef<RowStart> starts) override { return draft.start(firstRow, starts); }
  bool fallsBehind() const override { return draft.fallsBehind(); }
  Error moveRow(int64_t from, int64_t to) override { return draft.moveRow(from, to); }
  Expected<std::vector<KernelLaunch>> launches(int64_t rows, int64_t guesses) override {
    Launches all;
    if (Error error = append(all, draft.launches(rows, guesses)))
      return error;
    if (Error error = append(all, sampler.launches(Entry::Pretend, rows)))
      return error;
    return all;
  }
  Expected<std::vector<KernelLaunch>> afterwork(int64_t rows) override { return draft.afterwork(rows); }

private:
  DeviceDraft &draft;
};

PretendedDraft::PretendedDraft(Draft &draft, double acceptance) : draft(draft), acceptance(acceptance) {}
PretendedDraft::~PretendedDraft() = default;

Expected<DeviceDraft *> PretendedDraft::onDevice(DeviceSampler &sampler) {
  if (!device || &device->target() != &sampler) {
    Expected<DeviceDraft *> own = draft.onDevice(sampler);
    if (!own)
      return own.takeError();
    device = std::make_unique<OnDevice>(sampler, **own);
  }
  auto odds = static_cast<int32_t>(std::min(std::ldexp(acceptance, 31), 2147483647.0));
  if (Error error = device->know(text, odds, seed))
    return error;
  return device.get();
}

} // namespace kiln
