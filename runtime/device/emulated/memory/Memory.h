//===- Memory.h - global memory of the emulated device ------------------------------===//
#pragma once

#include "runtime/device/emulated/memory/Guard.h"
#include "runtime/device/emulated/memory/TensorRanges.h"
#include "support/files/Descriptor.h"

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

  /// Like `allocate`, of memory that other processes can import. No file system has a name of it: it is gone with the
  /// last process that uses it.
  Expected<void *> allocateShared(size_t bytes, StringRef name);

  /// Frees what `allocate` or `allocateShared` has returned.
  void free(void *memory);

  /// What stands for memory of `allocateShared` in another process; not open if the system has no descriptors left.
  Descriptor exportShared(void *memory) const;

  /// Memory that another process has exported. It has guards there, and is checked there. Error: the system refuses it.
  Expected<void *> import(const Descriptor &exported, StringRef name);
  void releaseImported(void *memory);

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
    Descriptor shared = {}; ///< open: the space is a mapping of it
  };
  const Allocation *allocationOf(const TensorRange &range) const;
  void release(Allocation &allocation);

  mutable std::mutex mutex;                       ///< guards the members below
  std::map<const void *, Allocation> allocations; ///< by the address handed out
  std::map<const void *, size_t> imports;         ///< the bytes of each mapping, by the address handed out
};

} // namespace kiln
