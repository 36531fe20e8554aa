//===- WeightUpload.h - uploading weights to devices ----------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/weights/WeightSource.h"
#include "support/Diagnostic.h"
#include "support/process/Parallel.h"
#include "support/process/Trace.h"

#include <condition_variable>
#include <mutex>

namespace kiln {

/// Packs weights and uploads them beside the devices' other work, one after the other, on its own thread: the next
/// weight is packed while one is being copied, and a call waits only for the weights that it needs. A weight is packed
/// once for all devices. Packed bytes pass through a few staging buffers, so that host memory does not grow with the
/// model. If no thread can be created, everything is uploaded at the start.
class WeightUpload {
public:
  struct Item {
    const PlanWeight *weight;
    SmallVector<char *, 1> targets; ///< on each device
  };

  /// Starts to upload `items` in order: of a plan for several ranks, the shares of this one. All objects that are
  /// passed by reference, and the trace, which may be null, must outlive the upload. Error: invalid packing recipes, no
  /// staging memory.
  static Expected<std::unique_ptr<WeightUpload>> start(ArrayRef<Device *> devices, const WeightSource &source,
                                                       std::vector<Item> items, int64_t rank = 0,
                                                       Trace *trace = nullptr);

  ~WeightUpload() { abandon(); }

  /// Ends the upload, if it is still going on: nothing is written to any device any more. Items that have not been
  /// uploaded are errors of await.
  void abandon();

  /// Makes work that is enqueued from now on by a device, which is given by its number, find the item uploaded. Waits
  /// until the upload of the item has been enqueued. Several threads may wait, each for its device. Error: the reason
  /// that stopped the upload.
  Error await(size_t device, size_t item);

  /// Waits until all uploads have been enqueued, and makes the device wait for them. Errors as of await.
  Error awaitAll(size_t device) { return items.empty() ? Error::success() : await(device, items.size() - 1); }

private:
  using Events = std::vector<std::unique_ptr<DeviceEvent>>; ///< one of each device
  struct Staging {
    DeviceMemory memory;
    Events isFree = {}; ///< happen when the last upload from this buffer has ended
    bool isUsed = false;
  };

  WeightUpload(ArrayRef<Device *> devices, const WeightSource &source, std::vector<Item> items, int64_t rank,
               Trace *trace)
      : devices(devices), source(source), items(std::move(items)), rank(rank), trace(trace) {}

  Error allocate();
  Expected<Events> makeEvents();
  Error record(const Events &events);
  Error awaitUploads(const Staging &buffer);
  void run();
  Error upload(const Item &item);

  SmallVector<Device *, 1> devices;
  const WeightSource &source;
  std::vector<Item> items;
  int64_t rank;
  Trace *trace;
  std::vector<Events> uploaded; ///< by item
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
