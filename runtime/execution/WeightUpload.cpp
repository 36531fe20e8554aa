#include "runtime/execution/WeightUpload.h"

#include "runtime/weights/PackWeight.h"

namespace kiln {

/// Two buffers suffice to pack one while the other is copied; a third absorbs delays by other work of the machine.
constexpr size_t stagingBuffers = 3;
constexpr int64_t stagingBytes = int64_t(16) << 20;

Expected<std::unique_ptr<WeightUpload>> WeightUpload::start(ArrayRef<Device *> devices, const WeightSource &source,
                                                            std::vector<Item> items, int64_t rank, Trace *trace) {
  std::unique_ptr<WeightUpload> upload(new WeightUpload(devices, source, std::move(items), rank, trace));
  if (Error error = upload->allocate())
    return error;
  auto run = [raw = upload.get()] { raw->run(); };
  upload->thread = startThread(run);
  if (!upload->thread)
    run();
  return upload;
}

Error WeightUpload::allocate() {
  int64_t total = 0, longestRow = 1;
  for (const Item &item : items) {
    Expected<PackedRows> rows = packedRows(item.weight->recipe);
    if (!rows)
      return rows.takeError();
    total += rows->count * rows->bytes;
    longestRow = std::max(longestRow, rows->bytes);
    Expected<Events> events = makeEvents();
    if (!events)
      return events.takeError();
    uploaded.push_back(std::move(*events));
  }
  int64_t bytes = std::max(longestRow, std::min(stagingBytes, total));
  for (size_t i = 0; i < stagingBuffers; ++i) {
    auto memory = DeviceMemory::allocateHost(*devices.front(), bytes, "staging weights");
    if (!memory)
      return memory.takeError();
    Expected<Events> events = makeEvents();
    if (!events)
      return events.takeError();
    staging.push_back({std::move(*memory), std::move(*events)});
  }
  return Error::success();
}

Expected<WeightUpload::Events> WeightUpload::makeEvents() {
  Events events;
  for (Device *device : devices) {
    auto event = device->makeEvent();
    if (!event)
      return event.takeError();
    events.push_back(std::move(*event));
  }
  return events;
}

Error WeightUpload::record(const Events &events) {
  for (auto [device, event] : llvm::zip(devices, events))
    if (Error error = device->record(*event))
      return error;
  return Error::success();
}

/// Waits until no device reads the buffer any more.
Error WeightUpload::awaitUploads(const Staging &buffer) {
  if (!buffer.isUsed)
    return Error::success();
  for (auto [device, event] : llvm::zip(devices, buffer.isFree))
    if (Error error = device->synchronize(*event))
      return error;
  return Error::success();
}

void WeightUpload::abandon() {
  {
    std::lock_guard lock(mutex);
    isAbandoned = true;
  }
  if (thread && thread->joinable())
    thread->join();
  progress.notify_all();
  // The devices may still read the staging buffers.
  for (Staging &buffer : staging)
    llvm::consumeError(awaitUploads(buffer));
}

void WeightUpload::run() {
  for (size_t i = 0; i < items.size(); ++i) {
    Error error = upload(items[i]);
    if (!error)
      error = record(uploaded[i]);
    std::lock_guard lock(mutex);
    if (error)
      failure = takeDiagnostics(std::move(error));
    else
      done = i + 1;
    progress.notify_all();
    if (failure || isAbandoned)
      return;
  }
}

Error WeightUpload::upload(const Item &item) {
  TraceScope span(trace, TraceLane::Uploads, item.weight->name);
  const WeightRecipe &recipe = item.weight->recipe;
  Expected<RecipeTensors> tensors = openTensors(recipe, source, rank);
  if (!tensors)
    return tensors.takeError();
  PackedRows rows = cantFail(packedRows(recipe), "allocate has checked it");
  int64_t rowsAtOnce = rows.bytes == 0 ? 1 : staging.front().memory.bytes() / rows.bytes;
  for (int64_t first = 0; first < rows.count; first += rowsAtOnce) {
    Staging &buffer = staging[nextStaging++ % staging.size()];
    if (Error error = awaitUploads(buffer))
      return error;
    int64_t last = std::min(first + rowsAtOnce, rows.count), bytes = (last - first) * rows.bytes;
    MutableArrayRef<uint8_t> packed(reinterpret_cast<uint8_t *>(buffer.memory.address()), bytes);
    if (Error error = packWeightRows(recipe, *tensors, first, last, packed))
      return error;
    buffer.isUsed = true;
    for (auto [device, target] : llvm::zip(devices, item.targets))
      if (Error error = device->uploadBeside(target + first * rows.bytes, packed.data(), bytes))
        return error;
    if (Error error = record(buffer.isFree))
      return error;
  }
  return Error::success();
}

Error WeightUpload::await(size_t device, size_t item) {
  std::unique_lock lock(mutex);
  progress.wait(lock, [&] { return done > item || failure || isAbandoned; });
  if (failure && done <= item)
    return llvm::make_error<DiagnosticError>(*failure);
  if (done <= item)
    return makeError("the upload of weights was abandoned");
  // Uploads finish in the order in which they were started.
  return devices[device]->awaitEvent(*uploaded[item][device]);
}

} // namespace kiln
