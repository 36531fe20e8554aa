#include "runtime/generation/speculation/DeviceDraft.h"

namespace kiln {

Error DeviceDraft::append(Launches &all, Expected<Launches> more) {
  if (!more)
    return more.takeError();
  llvm::append_range(all, std::move(*more));
  return Error::success();
}

Expected<std::vector<KernelLaunch>> DeviceDraft::checkLaunches(int64_t rows) {
  std::vector<KernelLaunch> all;
  for (Entry entry : {Entry::Verify, Entry::Accept})
    if (Error error = append(all, sampler.launches(entry, rows)))
      return error;
  return all;
}

Error DeviceDraft::preparePass(int64_t rows, int64_t guesses) {
  std::unique_ptr<DeviceGraph> &graph = graphs[{rows, guesses}];
  if (graph)
    return Error::success();
  std::vector<KernelLaunch> all;
  if (Error error = append(all, launches(rows, guesses)))
    return error;
  GraphBranch beside = {all.size()};
  if (Error error = append(beside.launches, afterwork(rows)))
    return error;
  if (Error error = append(all, checkLaunches(rows)))
    return error;
  return sampler.executor().device().makeGraph(std::move(all), std::move(beside)).moveInto(graph);
}

Error DeviceDraft::pass(int64_t rows, int64_t guesses) {
  if (Error error = preparePass(rows, guesses))
    return error;
  sampler.noteChoices(rows, sampler.passTokens());
  return sampler.executor().device().run(*graphs[{rows, guesses}]);
}

Expected<std::vector<KernelLaunch>> NgramDeviceDraft::launches(int64_t rows, int64_t guesses) {
  return sampler.launches(Entry::Ngram, rows);
}

Expected<std::unique_ptr<DeviceDraft>> ModelDeviceDraft::create(DeviceSampler &sampler, Executor &draft) {
  Expected<std::unique_ptr<DeviceSampler>> own = DeviceSampler::create(draft);
  if (!own)
    return own.takeError();
  if (Error error = (*own)->reset())
    return error;
  return std::unique_ptr<DeviceDraft>(new ModelDeviceDraft(sampler, std::move(*own)));
}

Error ModelDeviceDraft::start(int64_t firstRow, ArrayRef<RowStart> starts) {
  // A text that is too long for the draft gets wrong guesses.
  auto context = static_cast<size_t>(own->executor().plan().model.context);
  std::vector<RowStart> fitting = starts.vec();
  for (RowStart &start : fitting)
    start.tokens.resize(std::min(start.tokens.size(), context));
  return own->hold(firstRow, fitting);
}

/// The launches of @decode up to the last one that has to do with the cache: the token enters the cache, and no logits
/// are computed.
static void dropLogits(const Plan &plan, std::vector<KernelLaunch> &launches) {
  auto isOfState = [&](const LaunchTensor &tensor) {
    StringRef name = tensor.name;
    return name.consume_front("%") &&
           llvm::any_of(plan.states, [&](const PlanTensor &state) { return state.name == name; });
  };
  while (!launches.empty() && llvm::none_of(launches.back().tensors, isOfState))
    launches.pop_back();
}

Expected<std::vector<KernelLaunch>> ModelDeviceDraft::launches(int64_t rows, int64_t guesses) {
  const FollowEntry &follow = *sampler.executor().plan().entries.follow;
  const CollectEntry &collect = *sampler.executor().plan().entries.collect;
  const SampleEntry &names = *own->executor().plan().entries.sample;
  auto bind = [&](StringRef argument, StringRef name, bool isWritten) {
    return Executor::Binding{argument, own->memoryOf(name), isWritten};
  };
  std::vector<KernelLaunch> all;
  if (Error error = append(
          all, sampler.launches(Entry::Follow, rows,
                                {bind(follow.settings, names.settings, false), bind(follow.tokens, names.tokens, true),
                                 bind(follow.positions, names.positions, true), bind(follow.rows, names.rows, true),
                                 bind(follow.launches, names.launches, true)})))
    return error;
  for (int64_t i = 0; i < guesses; ++i)
    for (Entry entry : {Entry::Decode, Entry::Sample})
      if (Error error = append(all, own->launches(entry, rows)))
        return error;
  if (Error error = append(all, sampler.launches(Entry::Collect, rows,
                                                 {bind(collect.recent, names.recent, false),
                                                  bind(collect.launches, names.launches, false)})))
    return error;
  return all;
}

/// The last guess enters the draft's cache, in case that it is right.
Expected<std::vector<KernelLaunch>> ModelDeviceDraft::afterwork(int64_t rows) {
  Expected<std::vector<KernelLaunch>> last = own->launches(Entry::Decode, rows);
  if (last)
    dropLogits(own->executor().plan(), *last);
  return last;
}

} // namespace kiln
