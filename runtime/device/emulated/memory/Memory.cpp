#include "runtime/device/emulated/memory/Memory.h"

#include "runtime/device/emulated/memory/Sanitizer.h"
#include "support/Diagnostic.h"

#include <cstdlib>
#include <sys/mman.h>
#include <sys/stat.h>

namespace kiln {

static constexpr size_t alignment = 256;

EmulatedMemory::~EmulatedMemory() {
  for (auto &[address, allocation] : allocations)
    release(allocation);
  while (!imports.empty())
    releaseImported(const_cast<void *>(imports.begin()->first));
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
  if (allocation.shared.isOpen())
    munmap(allocation.space, GuardedMemory::spaceFor(allocation.memory.size(), alignment));
  else
    std::free(allocation.space);
}

void EmulatedMemory::free(void *memory) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(memory);
  assert(found != allocations.end() && "expected an address from allocate");
  release(found->second);
  allocations.erase(found);
}

//===----------------------------------------------------------------------===//
// Memory that processes share
//===----------------------------------------------------------------------===//

/// Maps a whole file of memory; null if the system refuses it.
static void *map(const Descriptor &file, size_t bytes) {
  void *space = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  return space == MAP_FAILED ? nullptr : space;
}

Expected<void *> EmulatedMemory::allocateShared(size_t bytes, StringRef name) {
  const size_t whole = GuardedMemory::spaceFor(bytes, alignment);
  Descriptor file(memfd_create("kiln", MFD_CLOEXEC));
  void *space = file.isOpen() && ftruncate(file.number(), static_cast<off_t>(whole)) == 0 ? map(file, whole) : nullptr;
  if (!space)
    return makeError(formatv("no shared memory for '{0}' ({1} bytes) of the emulated device", name, bytes) +
                     systemReason());
  GuardedMemory memory(space, bytes, alignment);
  std::lock_guard lock(mutex);
  allocations[memory.data()] = {name.str(), space, memory, std::move(file)};
  return memory.data();
}

Descriptor EmulatedMemory::exportShared(void *memory) const {
  std::lock_guard lock(mutex);
  return allocations.find(memory)->second.shared.duplicate();
}

Expected<void *> EmulatedMemory::import(const Descriptor &exported, StringRef name) {
  struct stat state = {};
  void *space = fstat(exported.number(), &state) == 0 ? map(exported, static_cast<size_t>(state.st_size)) : nullptr;
  if (!space)
    return makeError("cannot reach '" + name + "' of another process" + systemReason());
  void *memory = static_cast<char *>(space) + alignment; // behind the front guard
  std::lock_guard lock(mutex);
  imports[memory] = static_cast<size_t>(state.st_size);
  return memory;
}

void EmulatedMemory::releaseImported(void *memory) {
  std::lock_guard lock(mutex);
  auto found = imports.find(memory);
  munmap(static_cast<char *>(memory) - alignment, found->second);
  imports.erase(found);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

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
