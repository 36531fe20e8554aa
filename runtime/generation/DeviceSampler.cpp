#include "runtime/generation/DeviceSampler.h"

#include "sample/state.cuh"
#include "support/Diagnostic.h"

#include <atomic>
#include <thread>

namespace kiln {

static SamplingSettings settingsOf(const RowStart &start, int64_t context) {
  SamplingSettings settings = {};
  settings.seed = start.sampling.seed;
  settings.topP = samplingTopP(start.sampling);
  settings.mostExponent = samplingMostExponent(start.sampling);
  settings.scale = samplingScale(start.sampling);
  settings.isGreedy = start.sampling.greedy;
  settings.topK = static_cast<int32_t>(std::min<int64_t>(start.sampling.topK, INT32_MAX));
  settings.context = static_cast<int32_t>(context);
  // Stop tokens beyond the maximum are checked on the host only; this costs some discarded steps.
  settings.stopCount = static_cast<int32_t>(std::min<size_t>(start.stopTokens.size(), kMaxStopTokens));
  std::copy_n(start.stopTokens.begin(), settings.stopCount, settings.stopTokens);
  return settings;
}

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
  return base + row * rowBytes.find(tensor)->second;
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

template <class T> Error DeviceSampler::uploadRows(StringRef tensor, int64_t firstRow, ArrayRef<T> values) {
  return device.upload(rowOf(tensor, firstRow), values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
}

Error DeviceSampler::reset() {
  // Rows that were not started count as finished, and decode harmless inputs.
  int64_t batch = executor.options().batch;
  std::vector<SamplingRow> rows(batch, SamplingRow{0, 0, 0, 1});
  std::vector<SamplingSettings> settings(batch, settingsOf({}, executor.plan().model.context));
  std::vector<int32_t> zeros(batch, 0);
  for (StringRef input : {StringRef(names.tokens), StringRef(names.positions)})
    if (Error error = uploadRows<int32_t>(input, 0, zeros))
      return error;
  if (Error error = uploadRows<SamplingSettings>(names.settings, 0, settings))
    return error;
  return uploadRows<SamplingRow>(names.rows, 0, rows);
}

Error DeviceSampler::setRows(int64_t firstRow, ArrayRef<RowStart> starts) {
  std::vector<SamplingSettings> settings;
  std::vector<SamplingRow> rows;
  std::vector<int32_t> positions;
  for (const RowStart &start : starts) {
    settings.push_back(settingsOf(start, executor.plan().model.context));
    auto remaining = static_cast<int32_t>(std::min<int64_t>(start.remaining, INT32_MAX));
    rows.push_back({start.sequence, start.position, remaining, 0});
    // The position of the token that precedes the first choice.
    positions.push_back(static_cast<int32_t>(start.tokens.size()) - 1);
  }
  if (Error error = uploadRows<int32_t>(names.positions, firstRow, positions))
    return error;
  if (Error error = uploadRows<SamplingSettings>(names.settings, firstRow, settings))
    return error;
  return uploadRows<SamplingRow>(names.rows, firstRow, rows);
}

Error DeviceSampler::prefill(int64_t firstRow, ArrayRef<RowStart> starts) {
  std::vector<std::vector<int32_t>> prompts;
  for (const RowStart &start : starts)
    prompts.push_back(start.tokens);
  PrefillCall prefill(executor, firstRow, prompts);
  if (Error error = executor.enqueue(prefill.call))
    return error;
  if (Error error = setRows(firstRow, starts))
    return error;
  Expected<char *> logits = executor.addressOf(prefill.call, executor.plan().entries.logitsOf(Entry::Prefill));
  if (!logits)
    return logits.takeError();
  auto rows = static_cast<int64_t>(starts.size());
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
  for (StringRef tensor :
       {StringRef(names.settings), StringRef(names.rows), StringRef(names.tokens), StringRef(names.positions)})
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
