//===- WeightUpload.h - weights on their way to the device ------------------===//
#pragma once

#include "runtime/device/Device.h"
#include "runtime/weights/WeightSource.h"
#include "support/Diagnostic.h"
#include "support/Parallel.h"

#include <condition_variable>
#include <mutex>

namespace kiln {

/// Packs weights and uploads them beside the device's other work, one after the other, on a thread of its own: while
/// one travels the next is packed, and whoever needs a weight waits for that one only. Packed bytes pass through a few
/// staging buffers, so that host memory does not grow with the model. Where no thread can be had, all is uploaded when
/// it starts.
class WeightUpload {
public:
  struct Item {
    const PlanWeight *weight;
    char *target; ///< on the device
  };

  /// Begins to upload `items` in their order. All that is referred to must outlive the upload. Error: recipes that make
  /// no sense, no staging memory.
  static Expected<std::unique_ptr<WeightUpload>> start(Device &device, const WeightSource &source,
                                                       std::vector<Item> items);

  /// Abandons what has not been uploaded.
  ~WeightUpload();

  /// What the device is given from now on finds the item uploaded. Waits until its upload has been asked for. Error:
  /// what stopped the upload.
  Error await(size_t item);

  /// Waits until everything has been asked for, and lets the device wait for it. Error: as of await.
  Error awaitAll() { return items.empty() ? Error::success() : await(items.size() - 1); }

private:
  struct Staging {
    DeviceMemory memory;
    std::unique_ptr<DeviceEvent> isFree; ///< of what was uploaded from it last
    bool isUsed = false;
  };

  WeightUpload(Device &device, const WeightSource &source, std::vector<Item> items)
      : device(device), source(source), items(std::move(items)) {}

  Error allocate();
  void run();
  Error upload(const Item &item);

  Device &device;
  const WeightSource &source;
  std::vector<Item> items;
  std::vector<std::unique_ptr<DeviceEvent>> uploaded; ///< by item
  std::vector<Staging> staging;
  size_t nextStaging = 0;

  std::mutex mutex; ///< of what follows
  std::condition_variable progress;
  size_t done = 0; ///< items whose upload has been asked for
  std::optional<std::vector<Diagnostic>> failure;
  bool isAbandoned = false;
  std::optional<std::thread> thread; ///< last: it uses all the others
};

} // namespace kiln
