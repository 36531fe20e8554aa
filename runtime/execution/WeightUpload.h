//===- WeightUpload.h - uploading weights to the device -------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/weights/WeightSource.h"
#include "support/Diagnostic.h"
#include "support/Parallel.h"
#include "support/Trace.h"

#include <condition_variable>
#include <mutex>

namespace kiln {

/// Packs weights and uploads them beside the device's other work, one after the other, on its own thread: the next
/// weight is packed while one is being copied, and a call waits only for the weights that it needs. Packed bytes pass
/// through a few staging buffers, so that host memory does not grow with the model. If no thread can be created,
/// everything is uploaded at the start.
class WeightUpload {
public:
  struct Item {
    const PlanWeight *weight;
    char *target; ///< on the device
  };

  /// Starts to upload `items` in order. All objects that are passed by reference, and the trace, which may be null,
  /// must outlive the upload. Error: invalid packing recipes, no staging memory.
  static Expected<std::unique_ptr<WeightUpload>> start(Device &device, const WeightSource &source,
                                                       std::vector<Item> items, Trace *trace = nullptr);

  /// Abandons the items that have not been uploaded.
  ~WeightUpload();

  /// Makes work that is enqueued from now on find the item uploaded. Waits until the upload of the item has been
  /// enqueued. Error: the reason that stopped the upload.
  Error await(size_t item);

  /// Waits until all uploads have been enqueued, and makes the device wait for them. Errors as of await.
  Error awaitAll() { return items.empty() ? Error::success() : await(items.size() - 1); }

private:
  struct Staging {
    DeviceMemory memory;
    std::unique_ptr<DeviceEvent> isFree; ///< happens when the last upload from this buffer has ended
    bool isUsed = false;
  };

  WeightUpload(Device &device, const WeightSource &source, std::vector<Item> items, Trace *trace)
      : device(device), source(source), items(std::move(items)), trace(trace) {}

  Error allocate();
  void run();
  Error upload(const Item &item);

  Device &device;
  const WeightSource &source;
  std::vector<Item> items;
  Trace *trace;
  std::vector<std::unique_ptr<DeviceEvent>> uploaded; ///< by item
  std::vector<Staging> staging;
  size_t nextStaging = 0;

  std::mutex mutex; ///< guards the members below
  std::condition_variable progress;
  size_t done = 0; ///< items whose upload has been enqueued
  std::optional<std::vector<Diagnostic>> failure;
  bool isAbandoned = false;
  std::optional<std::thread> thread; ///< last: it uses all the others
};

} // namespace kiln
