#include "runtime/generation/DeviceSampler.h"

#include "sample/state.cuh"
#include "support/Diagnostic.h"

#include <atomic>
#include <thread>

namespace kiln {

Expected<std::unique_ptr<DeviceSampler>> DeviceSampler::create(Executor &executor) {
  std::unique_ptr<DeviceSampler> sampler(new DeviceSampler(executor));
  if (Error error = sampler->allocate())
    return error;
  return sampler;
}

Error DeviceSampler::allocate() {
  const Plan &plan = executor.plan();
  int64_t batch = executor.options().batch;
  choices.assign(batch, 0);
  const DecodeEntry &inputs = *plan.entries.decode;
  for (auto [input, own] : {std::pair(&inputs.tokens, &names.tokens), std::pair(&inputs.positions, &names.positions)}) {
    Expected<char *> address = executor.addressOf(executor.call(Entry::Decode, batch), *input);
    if (!address)
      return address.takeError();
    decodeInputs[*own] = *address;
  }
  for (const PlanTensor &tensor : plan.function(Entry::Sample).arguments) {
    Expected<int64_t> one = tensor.bytes().evaluate(plan.bind(1, 1));
    Expected<int64_t> all = tensor.bytes().evaluate(plan.bind(batch, 1));
    if (!one || !all)
      return llvm::joinErrors(one.takeError(), all.takeError());
    rowBytes[tensor.name] = *one;
    // The logits stay where the previous function wrote them.
    if (tensor.name == names.logits || decodeInputs.count(tensor.name))
      continue;
    bool isHost = tensor.name == names.ring;
    auto made = isHost ? DeviceMemory::allocateHost(device, *all, "the ring of tokens")
                       : DeviceMemory::allocate(device, *all, "the state of sampling");
    if (!made)
      return made.takeError();
    if (isHost)
      std::memset(made->address(), 0, *all);
    else if (Error error = device.clear(made->address(), *all))
      return error;
    memory[tensor.name] = std::move(*made);
  }
  constexpr auto entryBytes = static_cast<int64_t>(sizeof(uint64_t));
  ringEntries = rowBytes[names.ring] / entryBytes;
  if (rowBytes[names.settings] != sizeof(SamplingSettings) || rowBytes[names.rows] != sizeof(SamplingRow) ||
      ringEntries < 1 || rowBytes[names.ring] % entryBytes != 0)
    return makeError("@sample of the plan is of another version; compile the model again");
  return Error::success();
}

char *DeviceSampler::rowOf(StringRef tensor, int64_t row) const {
  auto input = decodeInputs.find(tensor);
  char *base = input != decodeInputs.end() ? input->second : memory.find(tensor)->second.address();
  return tensor == names.settings ? base : base + row * rowBytes.find(tensor)->second;
}

Executor::Call DeviceSampler::sampleCall(int64_t firstRow, int64_t rows, char *logits) const {
  Executor::Call call = executor.call(Entry::Sample, rows);
  for (const PlanTensor &tensor : executor.plan().function(Entry::Sample).arguments) {
    bool isLogits = tensor.name == names.logits;
    call.bindings.push_back({tensor.name, isLogits ? logits : rowOf(tensor.name, firstRow),
                             /*isWritten=*/!isLogits && tensor.name != names.settings});
  }
  return call;
}

Error DeviceSampler::configure(const StreamOptions &chosen) {
  options = chosen;
  SamplingSettings settings = {};
  settings.seed = options.sampling.seed;
  settings.topP = samplingTopP(options.sampling);
  settings.mostExponent = samplingMostExponent(options.sampling);
  settings.scale = samplingScale(options.sampling);
  settings.isGreedy = options.sampling.greedy;
  settings.topK = static_cast<int32_t>(std::min<int64_t>(options.sampling.topK, INT32_MAX));
  settings.context = static_cast<int32_t>(executor.plan().model.context);
  // Stop tokens beyond the maximum are checked on the host only; this costs some discarded steps.
  settings.stopCount = static_cast<int32_t>(std::min<size_t>(options.stopTokens.size(), kMaxStopTokens));
  std::copy_n(options.stopTokens.begin(), settings.stopCount, settings.stopTokens);
  if (Error error = device.upload(rowOf(names.settings, 0), &settings, sizeof(settings)))
    return error;
  // Rows without a prompt count as finished, and decode harmless inputs.
  int64_t batch = executor.options().batch;
  std::vector<SamplingRow> rows(batch, SamplingRow{0, 0, 0, 1});
  std::vector<int32_t> zeros(batch, 0);
  for (StringRef input : {StringRef(names.tokens), StringRef(names.positions)})
    if (Error error = device.upload(rowOf(input, 0), zeros.data(), batch * 4))
      return error;
  return device.upload(rowOf(names.rows, 0), rows.data(), batch * static_cast<int64_t>(sizeof(SamplingRow)));
}

Error DeviceSampler::setRows(int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts, ArrayRef<RowStart> starts) {
  std::vector<SamplingRow> rows;
  std::vector<int32_t> positions;
  for (const auto &[prompt, start] : llvm::zip(prompts, starts)) {
    auto remaining = static_cast<int32_t>(std::min<uint64_t>(start.remaining, INT32_MAX));
    rows.push_back({start.sequence, start.position, remaining, 0});
    // The position of the token that precedes the first choice.
    positions.push_back(static_cast<int32_t>(prompt.size()) - 1);
  }
  auto count = static_cast<int64_t>(rows.size());
  if (Error error = device.upload(rowOf(names.positions, firstRow), positions.data(), count * 4))
    return error;
  return device.upload(rowOf(names.rows, firstRow), rows.data(), count * static_cast<int64_t>(sizeof(SamplingRow)));
}

Error DeviceSampler::prefill(int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts, ArrayRef<RowStart> starts) {
  PrefillCall prefill(executor, firstRow, prompts);
  if (Error error = executor.enqueue(prefill.call))
    return error;
  if (Error error = setRows(firstRow, prompts, starts))
    return error;
  Expected<char *> logits = executor.addressOf(prefill.call, executor.plan().entries.logitsOf(Entry::Prefill));
  if (!logits)
    return logits.takeError();
  auto rows = static_cast<int64_t>(prompts.size());
  for (int64_t row = firstRow; row < firstRow + rows; ++row)
    ++choices[row];
  return executor.launch(sampleCall(firstRow, rows, *logits));
}

Error DeviceSampler::prepareStep(int64_t rows) {
  std::unique_ptr<DeviceGraph> &graph = graphs[rows];
  if (graph)
    return Error::success();
  Executor::Call decode = executor.call(Entry::Decode, rows);
  Expected<char *> logits = executor.addressOf(decode, executor.plan().entries.logitsOf(Entry::Decode));
  if (!logits)
    return logits.takeError();
  auto recorded = executor.record({decode, sampleCall(0, rows, *logits)});
  if (!recorded)
    return recorded.takeError();
  graph = std::move(*recorded);
  return Error::success();
}

Error DeviceSampler::step(int64_t rows) {
  if (Error error = prepareStep(rows))
    return error;
  for (int64_t row = 0; row < rows; ++row)
    ++choices[row];
  return device.run(*graphs[rows]);
}

Error DeviceSampler::moveRow(int64_t from, int64_t to) {
  for (StringRef tensor : {StringRef(names.rows), StringRef(names.tokens), StringRef(names.positions)})
    if (Error error = device.copy(rowOf(tensor, to), rowOf(tensor, from), rowBytes.find(tensor)->second))
      return error;
  return executor.copyRow(from, to);
}

Expected<int32_t> DeviceSampler::token(int64_t row, uint32_t choice) {
  auto *entries = reinterpret_cast<uint64_t *>(rowOf(names.ring, row));
  std::atomic_ref<uint64_t> entry(entries[choice % ringEntries]);
  uint64_t seen = entry.load(std::memory_order_acquire);
  for (int64_t spins = 0; seen >> 32 != choice; ++spins) {
    // Now and then, check that the device still works. If it is idle without having made the token, it has failed, too.
    if (spins % 16384 == 16383) {
      Expected<bool> isIdle = device.isIdle();
      if (!isIdle)
        return isIdle.takeError();
      seen = entry.load(std::memory_order_acquire);
      if (*isIdle && seen >> 32 != choice)
        return makeError("@sample left no token on " + device.name());
      std::this_thread::yield();
    }
    seen = entry.load(std::memory_order_acquire);
  }
  auto token = static_cast<int32_t>(seen);
  if (token == kNotFinite)
    return makeError("logits: expected finite numbers, got nan or infinity");
  if (token == kAllMasked)
    return makeError("logits: expected a finite number, got none");
  const int64_t vocabulary = executor.plan().model.vocabulary;
  if (token < 0 || token >= vocabulary)
    return makeError("@sample: expected a token from 0 to " + Twine(vocabulary - 1) + ", got " + Twine(token));
  return token;
}

} // namespace kiln
