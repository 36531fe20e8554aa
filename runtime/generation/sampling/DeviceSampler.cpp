#include "runtime/generation/sampling/DeviceSampler.h"

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

/// Tokens of a launch of @generate. A launch takes about as long as 0.1 of a token; the more tokens, the longer a row
/// that only the host can end goes on.
constexpr int64_t mostTokensOfLaunch = 16;

Expected<std::unique_ptr<DeviceSampler>> DeviceSampler::create(Executor &executor) {
  std::unique_ptr<DeviceSampler> sampler(new DeviceSampler(executor));
  if (Error error = sampler->allocate())
    return error;
  return sampler;
}

/// Finds arguments of @decode and @verify that functions of sampling read and write.
Error DeviceSampler::findInputs() {
  int64_t batch = theExecutor.options().batch;
  const PlanEntries &entries = theExecutor.plan().entries;
  auto find = [&](Entry entry, StringRef input, StringRef own) -> Error {
    return theExecutor.addressOf(theExecutor.call(entry, batch), input).moveInto(inputs[own.str()]);
  };
  if (Error error = find(Entry::Decode, entries.decode->tokens, names.tokens))
    return error;
  if (Error error = find(Entry::Decode, entries.decode->positions, names.positions))
    return error;
  if (!entries.accept)
    return Error::success();
  tokensOfPass = theExecutor.plan().verifyTokens();
  if (Error error = find(Entry::Verify, entries.verify->tokens, entries.accept->guesses))
    return error;
  return find(Entry::Verify, entries.verify->positions, entries.ngram->starts);
}

/// Allocates what arguments of the function have no memory yet.
Error DeviceSampler::allocateFor(const PlanFunction &function) {
  int64_t batch = theExecutor.options().batch;
  for (const PlanTensor &tensor : function.arguments) {
    Expected<int64_t> one = tensor.bytes().evaluate(theExecutor.plan().bind(1, 1));
    Expected<int64_t> all = tensor.bytes().evaluate(theExecutor.plan().bind(batch, 1));
    if (!one || !all)
      return llvm::joinErrors(one.takeError(), all.takeError());
    // The logits stay where the previous function wrote them.
    if (tensor.name == names.logits || !rowBytes.try_emplace(tensor.name, *one).second || inputs.count(tensor.name))
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
  return Error::success();
}

Error DeviceSampler::allocate() {
  choices.assign(theExecutor.options().batch, 0);
  cached.assign(theExecutor.options().batch, 0);
  if (Error error = findInputs())
    return error;
  const Plan &functions = theExecutor.plan();
  // Arguments of @follow and @collect that are not among these belong to a draft.
  for (Entry entry : {Entry::Sample, Entry::Generate, Entry::Accept, Entry::Ngram, Entry::Pretend})
    if (functions.entries.has(entry))
      if (Error error = allocateFor(functions.function(entry)))
        return error;
  constexpr auto entryBytes = static_cast<int64_t>(sizeof(uint64_t));
  ringEntries = rowBytes[names.ring] / entryBytes;
  // The host reads the tokens of a launch while others are under way.
  if (functions.entries.generate)
    tokensOfLaunch = std::min({mostTokensOfLaunch, theExecutor.options().tokens, ringEntries / 4});
  if (rowBytes[names.settings] != sizeof(SamplingSettings) || rowBytes[names.rows] != sizeof(SamplingRow) ||
      rowBytes[names.recent] != kRecent * sizeof(int32_t) || ringEntries < 1 || rowBytes[names.ring] % entryBytes != 0)
    return makeError("@sample of the plan is of another version; compile the model again");
  return Error::success();
}

char *DeviceSampler::rowOf(StringRef tensor, int64_t row) const {
  auto input = inputs.find(tensor);
  char *base = input != inputs.end() ? input->second : memory.find(tensor)->second.address();
  return base + row * rowBytes.find(tensor)->second;
}

Executor::Call DeviceSampler::callOf(Entry entry, int64_t firstRow, int64_t rows, char *logits,
                                     ArrayRef<Executor::Binding> others) const {
  Executor::Call call = theExecutor.call(entry, rows, entry == Entry::Generate ? tokensOfLaunch : 1);
  call.bindings.assign(others.begin(), others.end());
  for (const PlanTensor &tensor : theExecutor.plan().function(entry).arguments) {
    auto isThis = [&](const Executor::Binding &other) { return other.argument == tensor.name; };
    if (llvm::any_of(others, isThis))
      continue;
    const bool isLogits = tensor.name == names.logits;
    const bool isRead = tensor.name == names.settings || (isLogits && entry != Entry::Generate);
    call.bindings.push_back({tensor.name, isLogits ? logits : rowOf(tensor.name, firstRow), /*isWritten=*/!isRead});
  }
  return call;
}

template <class T> Error DeviceSampler::uploadRows(StringRef tensor, int64_t firstRow, ArrayRef<T> values) {
  return device.upload(rowOf(tensor, firstRow), values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
}

Error DeviceSampler::reset() {
  // Rows that were not started count as finished, and decode harmless inputs.
  int64_t batch = theExecutor.options().batch;
  cached.assign(batch, 0);
  std::vector<SamplingRow> rows(batch, SamplingRow{0, 0, 0, 1});
  std::vector<SamplingSettings> settings(batch, settingsOf({}, theExecutor.plan().model.context));
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
  for (const auto &[i, start] : llvm::enumerate(starts)) {
    cached[firstRow + static_cast<int64_t>(i)] = static_cast<int64_t>(start.tokens.size());
    settings.push_back(settingsOf(start, theExecutor.plan().model.context));
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

/// Evaluates the tokens of rows, and sets the rows' state. Returns the address of the logits.
Expected<char *> DeviceSampler::evaluate(int64_t firstRow, ArrayRef<RowStart> starts) {
  std::vector<std::vector<int32_t>> prompts;
  for (const RowStart &start : starts)
    prompts.push_back(start.tokens);
  PrefillCall prefill(theExecutor, firstRow, prompts);
  if (Error error = theExecutor.enqueue(prefill.call))
    return error;
  if (Error error = setRows(firstRow, starts))
    return error;
  return theExecutor.addressOf(prefill.call, theExecutor.plan().entries.logitsOf(Entry::Prefill));
}

Error DeviceSampler::prefill(int64_t firstRow, ArrayRef<RowStart> starts) {
  Expected<char *> logits = evaluate(firstRow, starts);
  if (!logits)
    return logits.takeError();
  auto rows = static_cast<int64_t>(starts.size());
  for (int64_t row = firstRow; row < firstRow + rows; ++row)
    ++choices[row];
  return theExecutor.launch(callOf(Entry::Sample, firstRow, rows, *logits));
}

Error DeviceSampler::hold(int64_t firstRow, ArrayRef<RowStart> starts) {
  return evaluate(firstRow, starts).takeError();
}

Error DeviceSampler::uploadText(int64_t firstRow, ArrayRef<RowStart> starts) {
  for (const auto &[i, start] : llvm::enumerate(starts))
    if (Error error = device.upload(rowOf(names.text, firstRow + static_cast<int64_t>(i)), start.tokens.data(),
                                    static_cast<int64_t>(start.tokens.size() * sizeof(int32_t))))
      return error;
  return Error::success();
}

int64_t DeviceSampler::longestCache(int64_t rows) const {
  return *std::max_element(cached.begin(), cached.begin() + rows);
}

/// The graph of the next step, which is made unless it exists.
Expected<DeviceGraph *> DeviceSampler::graphOfStep(int64_t rows) {
  const int64_t past = longestCache(rows);
  std::unique_ptr<DeviceGraph> &graph = graphs[{rows, theExecutor.cacheBounds().of(past)}];
  if (graph)
    return graph.get();
  Executor::Call decode = theExecutor.decodeCall(rows, past);
  Expected<char *> logits = theExecutor.addressOf(decode, theExecutor.plan().entries.logitsOf(Entry::Decode));
  if (!logits)
    return logits.takeError();
  std::vector<Executor::Call> calls;
  if (theExecutor.plan().generates(rows))
    calls = {callOf(Entry::Generate, 0, rows, *logits)};
  else
    calls = {decode, callOf(Entry::Sample, 0, rows, *logits)};
  auto recorded = theExecutor.record(calls);
  if (!recorded)
    return recorded.takeError();
  graph = std::move(*recorded);
  return graph.get();
}

Error DeviceSampler::prepareStep(int64_t rows) { return graphOfStep(rows).takeError(); }

Error DeviceSampler::step(int64_t rows) {
  Expected<DeviceGraph *> graph = graphOfStep(rows);
  if (!graph)
    return graph.takeError();
  noteChoices(rows, stepTokens(rows));
  return device.run(**graph);
}

void DeviceSampler::noteChoices(int64_t rows, int64_t count) {
  for (int64_t row = 0; row < rows; ++row) {
    choices[row] += static_cast<uint32_t>(count);
    cached[row] += count;
  }
}

Expected<std::vector<KernelLaunch>> DeviceSampler::launches(Entry entry, int64_t rows,
                                                            ArrayRef<Executor::Binding> others) {
  if (Error error = theExecutor.finishLoading())
    return error;
  if (entry == Entry::Decode || entry == Entry::Verify)
    return theExecutor.launches(theExecutor.call(entry, rows));
  Entry source = entry == Entry::Accept ? Entry::Verify : Entry::Decode;
  Expected<char *> logits =
      theExecutor.addressOf(theExecutor.call(source, rows), theExecutor.plan().entries.logitsOf(source));
  return logits ? theExecutor.launches(callOf(entry, 0, rows, *logits, others)) : logits.takeError();
}

Error DeviceSampler::moveRow(int64_t from, int64_t to) {
  for (StringRef tensor : {StringRef(names.settings), StringRef(names.rows), StringRef(names.tokens),
                           StringRef(names.positions), StringRef(names.text)})
    if (Error error = device.copy(rowOf(tensor, to), rowOf(tensor, from), rowBytes.find(tensor)->second))
      return error;
  cached[to] = cached[from];
  return theExecutor.copyRow(from, to);
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
  if (token == kNoToken)
    return idleRow;
  if (token == kNotFinite)
    return makeError("logits: expected finite numbers, got nan or infinity");
  if (token == kAllMasked)
    return makeError("logits: expected a finite number, got none");
  const int64_t vocabulary = theExecutor.plan().model.vocabulary;
  if (token < 0 || token >= vocabulary)
    return makeError("@sample: expected a token from 0 to " + Twine(vocabulary - 1) + ", got " + Twine(token));
  return token;
}

} // namespace kiln
