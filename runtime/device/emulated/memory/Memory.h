//===- Memory.h - global memory of the emulated device ------------------------------===//
#pragma once

#include "runtime/device/emulated/memory/Guard.h"
#include "runtime/device/emulated/memory/TensorRanges.h"

#include <mutex>

namespace kiln {

/// Device allocations, each between guards and filled with NaN at first. Several threads may use it: a device's own
/// and those of its replicas, which share memory for weights on their way.
class EmulatedMemory {
public:
  EmulatedMemory() = default;
  EmulatedMemory(const EmulatedMemory &) = delete;
  EmulatedMemory &operator=(const EmulatedMemory &) = delete;
  ~EmulatedMemory();

  /// Allocates `bytes` bytes, aligned to 256 like cudaMalloc's. Errors call it `name`. Error: the system has no memory.
  Expected<void *> allocate(size_t bytes, StringRef name);

  /// Frees what `allocate` has returned.
  void free(void *memory);

  /// Every allocation, for launches whose tensors are not known.
  std::vector<TensorRange> ranges() const;

  /// Makes every access to the allocations that contain these ranges, outside of the ranges, an error of
  /// AddressSanitizer; and allows such accesses again.
  void restrictTo(ArrayRef<TensorRange> ranges);
  void liftRestriction(ArrayRef<TensorRange> ranges);

  /// A sentence about an allocation whose guard was overwritten, if there is one. Restores the guard, so that every
  /// fault is reported once.
  std::optional<std::string> takeDamage();

private:
  struct Allocation {
    std::string name;
    void *space;
    GuardedMemory memory;
  };
  const Allocation *allocationOf(const TensorRange &range) const;
  void release(Allocation &allocation);

  mutable std::mutex mutex;                       ///< guards the allocations
  std::map<const void *, Allocation> allocations; ///< by the address handed out
};

} // namespace kiln
