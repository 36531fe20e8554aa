#include "runtime/generation/speculation/Draft.h"

namespace kiln {

constexpr size_t longestEnding = 8;

/// The place behind the last earlier occurrence of the longest ending of the text; nothing if no token has occurred
/// before.
static std::optional<size_t> findContinuation(ArrayRef<int32_t> text) {
  std::optional<size_t> best;
  size_t longest = 0;
  for (size_t end = text.size() - 1; end > 0; --end) {
    size_t length = 0;
    while (length < std::min(end, longestEnding) && text[end - 1 - length] == text[text.size() - 1 - length])
      ++length;
    if (length > longest) {
      longest = length;
      best = end;
    }
    if (longest == longestEnding)
      break;
  }
  return best;
}

Error NgramDraft::guess(ArrayRef<GuessRequest> requests, MutableArrayRef<std::vector<int32_t>> guesses) {
  for (auto [request, own] : llvm::zip(requests, guesses)) {
    if (request.text.empty() || request.count <= 0)
      continue;
    std::optional<size_t> from = findContinuation(request.text);
    if (!from)
      continue;
    // The text may end before all guesses are found: it then goes on with the guesses themselves.
    for (size_t i = *from; own.size() < static_cast<size_t>(request.count); ++i)
      own.push_back(i < request.text.size() ? request.text[i] : own[i - request.text.size()]);
  }
  return Error::success();
}

Expected<DeviceDraft *> NgramDraft::onDevice(DeviceSampler &sampler) {
  if (!device || &device->target() != &sampler)
    device = std::make_unique<NgramDeviceDraft>(sampler);
  return device.get();
}

bool ModelDraft::isFor(const Device &other) const {
  return executor && &executor->device() == &other && executor->plan().entries.sample && !executor->plan().stepByStep;
}

Expected<DeviceDraft *> ModelDraft::onDevice(DeviceSampler &sampler) {
  if (!device || &device->target() != &sampler)
    if (Error error = ModelDeviceDraft::create(sampler, *executor).moveInto(device))
      return error;
  return device.get();
}

/// The guesses that fit into the model's context; the last one is not fed.
int64_t ModelDraft::countOf(const GuessRequest &request) const {
  return std::min(request.count, model.contextLength() + 1 - static_cast<int64_t>(request.text.size()));
}

/// Makes the model hold what it can of each text, at most all but the last token, and notes the rest.
Error ModelDraft::catchUp(ArrayRef<GuessRequest> requests) {
  // More tokens than this are evaluated together.
  constexpr size_t mostPending = 8;
  std::vector<std::vector<int32_t>> prompts(requests.size());
  std::vector<int64_t> lengths(requests.size(), -1);
  bool isAnyNew = false, isAnyShorter = false;
  for (size_t row = 0; row < requests.size(); ++row) {
    ArrayRef<int32_t> text = requests[row].text;
    pending[row].clear();
    if (text.empty() || countOf(requests[row]) <= 0)
      continue;
    std::vector<int32_t> &own = held[row];
    size_t common = 0;
    while (common < own.size() && common + 1 < text.size() && own[common] == text[common])
      ++common;
    if (common == 0 || text.size() - common > mostPending) {
      own = prompts[row] = text.vec();
      isAnyNew = true;
      continue;
    }
    isAnyShorter |= common < own.size();
    own.resize(common);
    lengths[row] = static_cast<int64_t>(common);
    pending[row].assign(text.begin() + static_cast<ptrdiff_t>(common), text.end());
  }
  if (isAnyShorter)
    model.truncate(lengths);
  return isAnyNew ? model.prefill(prompts, logits) : Error::success();
}

Error ModelDraft::guess(ArrayRef<GuessRequest> requests, MutableArrayRef<std::vector<int32_t>> guesses) {
  if (held.size() != requests.size()) { // of another batch
    held.assign(requests.size(), {});
    pending.resize(requests.size());
    logits.resize(requests.size());
  }
  if (Error error = catchUp(requests))
    return error;
  for (;;) {
    std::vector<int32_t> fed(requests.size(), idleRow);
    for (size_t row = 0; row < requests.size(); ++row) {
      const GuessRequest &request = requests[row];
      if (request.text.empty() || static_cast<int64_t>(guesses[row].size()) >= countOf(request))
        continue;
      if (!pending[row].empty()) {
        fed[row] = pending[row].front();
        pending[row].erase(pending[row].begin());
        continue;
      }
      Expected<int32_t> token = sampler.choose(logits[row], request.sequence, request.position + guesses[row].size());
      if (!token)
        return token.takeError();
      guesses[row].push_back(*token);
      if (static_cast<int64_t>(guesses[row].size()) < countOf(request))
        fed[row] = *token;
    }
    if (llvm::all_of(fed, [](int32_t token) { return token == idleRow; }))
      return Error::success();
    if (Error error = model.decode(fed, logits))
      return error;
    for (size_t row = 0; row < requests.size(); ++row)
      if (fed[row] != idleRow)
        held[row].push_back(fed[row]);
  }
}

} // namespace kiln
