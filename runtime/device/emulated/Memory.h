//===- Memory.h - global memory of the emulated device ------------------------------===//
#pragma once

#include "runtime/device/emulated/Guard.h"
#include "runtime/device/emulated/TensorRanges.h"

namespace kiln {

/// Device allocations, each between guards and NaN at first. Not for several threads at once.
class EmulatedMemory {
public:
  EmulatedMemory() = default;
  EmulatedMemory(const EmulatedMemory &) = delete;
  EmulatedMemory &operator=(const EmulatedMemory &) = delete;
  ~EmulatedMemory();

  /// `bytes` bytes, aligned to 256 as cudaMalloc's are. `name` is what errors call it.
  /// Error: the system has no memory.
  Expected<void *> allocate(size_t bytes, StringRef name);

  /// Frees what `allocate` has returned.
  void free(void *memory);

  /// Every allocation, for launches of which nobody says what tensors they have.
  std::vector<TensorRange> ranges() const;

  /// Makes every access to the allocations that hold these ranges, outside all of them, an error of AddressSanitizer;
  /// and none again.
  void restrictTo(ArrayRef<TensorRange> ranges);
  void liftRestriction(ArrayRef<TensorRange> ranges);

  /// A sentence about an allocation whose guard was overwritten since it was made, if there is one. The guard
  /// is made whole again, so that every misdeed is reported once.
  std::optional<std::string> takeDamage();

private:
  struct Allocation {
    std::string name;
    void *space;
    GuardedMemory memory;
  };
  const Allocation *allocationOf(const TensorRange &range) const;
  void release(Allocation &allocation);

  std::map<const void *, Allocation> allocations; ///< by the address handed out
};

} // namespace kiln
