#include "runtime/emulated/Memory.h"

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
  allocations[memory.data()] = {name.str(), space, memory};
  return memory.data();
}

void EmulatedMemory::release(Allocation &allocation) {
  allocation.memory.release();
  std::free(allocation.space);
}

void EmulatedMemory::free(void *memory) {
  auto found = allocations.find(memory);
  assert(found != allocations.end() && "expected an address from allocate");
  release(found->second);
  allocations.erase(found);
}

std::string EmulatedMemory::describe(const Allocation &allocation, ptrdiff_t offset) {
  return formatv("outside '{0}' ({1} bytes), at offset {2}", allocation.name, allocation.memory.size(),
                 offset);
}

std::optional<std::string> EmulatedMemory::outside(const void *address, size_t bytes) const {
  // The allocation that starts at or before the address, or the next one, whose front guard it may be in.
  auto next = allocations.upper_bound(address);
  if (next != allocations.begin())
    if (auto at = std::prev(next)->second.memory.outside(address, bytes))
      return describe(std::prev(next)->second, *at);
  if (next != allocations.end())
    if (auto at = next->second.memory.outside(address, bytes))
      return describe(next->second, *at);
  return std::nullopt;
}

std::optional<std::string> EmulatedMemory::takeDamage() {
  for (auto &[address, allocation] : allocations)
    if (std::optional<ptrdiff_t> at = allocation.memory.damage()) {
      allocation.memory.repair();
      return "wrote " + describe(allocation, *at);
    }
  return std::nullopt;
}

} // namespace kiln
