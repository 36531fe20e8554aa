#include "runtime/device/emulated/memory/Memory.h"

#include "runtime/device/emulated/memory/Sanitizer.h"
#include "support/Diagnostic.h"

#include <cstdlib>

namespace kiln {

static constexpr size_t alignment = 256;

EmulatedMemory::~EmulatedMemory() {
  for (auto &[address, allocation] : allocations)
    release(allocation);
}

Expected<void *> EmulatedMemory::allocate(size_t bytes, StringRef name) {
  void *space = std::aligned_alloc(alignment, GuardedMemory::spaceFor(bytes, alignment));
  if (!space)
    return makeError(formatv("no memory for '{0}' ({1} bytes) of the emulated device", name, bytes));
  GuardedMemory memory(space, bytes, alignment);
  std::lock_guard lock(mutex);
  allocations[memory.data()] = {name.str(), space, memory};
  return memory.data();
}

void EmulatedMemory::release(Allocation &allocation) {
  allocation.memory.release();
  std::free(allocation.space);
}

void EmulatedMemory::free(void *memory) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(memory);
  assert(found != allocations.end() && "expected an address from allocate");
  release(found->second);
  allocations.erase(found);
}

std::vector<TensorRange> EmulatedMemory::ranges() const {
  std::lock_guard lock(mutex);
  std::vector<TensorRange> all;
  for (const auto &[address, allocation] : allocations)
    all.push_back({allocation.memory.data(), allocation.memory.size(), allocation.name, true});
  return all;
}

const EmulatedMemory::Allocation *EmulatedMemory::allocationOf(const TensorRange &range) const {
  auto next = allocations.upper_bound(range.begin);
  if (next == allocations.begin())
    return nullptr;
  const Allocation &before = std::prev(next)->second;
  return before.memory.contains(range.begin, range.bytes) ? &before : nullptr; // else another device's
}

void EmulatedMemory::restrictTo(ArrayRef<TensorRange> ranges) {
  std::lock_guard lock(mutex);
  for (const TensorRange &range : ranges)
    if (const Allocation *allocation = allocationOf(range))
      forbidAccess(allocation->memory.data(), allocation->memory.size());
  for (const TensorRange &range : ranges)
    allowAccess(const_cast<char *>(range.begin), range.bytes);
}

void EmulatedMemory::liftRestriction(ArrayRef<TensorRange> ranges) {
  std::lock_guard lock(mutex);
  for (const TensorRange &range : ranges)
    if (const Allocation *allocation = allocationOf(range))
      allowAccess(allocation->memory.data(), allocation->memory.size());
}

std::optional<std::string> EmulatedMemory::takeDamage() {
  std::lock_guard lock(mutex);
  for (auto &[address, allocation] : allocations)
    if (std::optional<ptrdiff_t> at = allocation.memory.damage()) {
      allocation.memory.repair();
      return formatv("wrote outside '{0}' ({1} bytes), at offset {2}", allocation.name, allocation.memory.size(), *at)
          .str();
    }
  return std::nullopt;
}

} // namespace kiln
