#include "runtime/device/emulated/block/Fiber.h"

#include "runtime/device/emulated/memory/Sanitizer.h"

#include "device/emulated.cuh"

#include <sys/mman.h>

namespace kiln {

namespace bc = boost::context;

static constexpr size_t stacksPerSlab = 64;

/// The pattern at the low end of every stack; a body that overwrites it has overflowed.
static constexpr uint64_t stackMark = 0x6b696c6e73746b21;

size_t FiberStacks::stackBytes() { return hasAddressSanitizer ? 256 << 10 : kEmulatedStackBytes; }

/// Below each stack, the same amount of memory stays unused: an overflow ends there harmlessly and is reported.
static size_t strideBytes() { return 2 * FiberStacks::stackBytes(); }

/// Stacks start at different offsets within a page. At equal offsets, all threads of a block would compete for the same
/// few cache lines at every switch. The shift is an odd number of lines, so that all lines are used.
static constexpr size_t stackShift = 5 * 64;

/// Memory after the last stack stays unused as well.
static size_t slabBytes() { return stacksPerSlab * strideBytes() + FiberStacks::stackBytes(); }

void *FiberStacks::take() {
  if (slabs.empty() || slabs.back().used == stacksPerSlab) {
    void *base = mmap(nullptr, slabBytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED)
      return nullptr;
    slabs.push_back({base, 0});
  }
  Slab &slab = slabs.back();
  char *stack = static_cast<char *>(slab.base) + slab.used * strideBytes() + stackBytes();
  return stack - slab.used++ * stackShift;
}

bool FiberStacks::contains(const void *address) const {
  return llvm::any_of(slabs, [&](const Slab &slab) {
    return static_cast<size_t>(static_cast<const char *>(address) - static_cast<const char *>(slab.base)) < slabBytes();
  });
}

FiberStacks::~FiberStacks() {
  for (const Slab &slab : slabs) {
    // A fiber's last frame never returns, so AddressSanitizer would still forbid this memory when it is mapped again.
    allowAccess(slab.base, slabBytes());
    munmap(slab.base, slabBytes());
  }
}

namespace {
/// Boost's allocator interface over an existing stack.
struct GivenStack {
  void *stack;

  bc::stack_context allocate() {
    bc::stack_context context;
    context.size = FiberStacks::stackBytes();
    context.sp = static_cast<char *>(stack) + context.size;
    return context;
  }
  void deallocate(bc::stack_context &) {}
};
} // namespace

Fiber::Fiber(void *stack, std::function<void()> body) : stack(stack), body(std::move(body)) {
  *static_cast<uint64_t *>(stack) = stackMark;
  inside = bc::fiber(std::allocator_arg, GivenStack{stack}, [this](bc::fiber &&resumer) {
    outside = std::move(resumer);
    enterFromResume();
    this->body();
    beforeSwitch(nullptr, outsideStack, outsideBytes);
    return std::move(outside);
  });
}

void Fiber::enterFromResume() { afterSwitch(insideFrames, &outsideStack, &outsideBytes); }

void Fiber::resume() {
  beforeSwitch(&outsideFrames, stack, FiberStacks::stackBytes());
  inside = std::move(inside).resume();
  afterSwitch(outsideFrames, nullptr, nullptr);
}

void Fiber::suspend() {
  beforeSwitch(&insideFrames, outsideStack, outsideBytes);
  outside = std::move(outside).resume();
  enterFromResume();
}

bool Fiber::contains(const void *address) const {
  return address >= stack && address < static_cast<char *>(stack) + FiberStacks::stackBytes();
}

bool Fiber::isStackIntact() const { return *static_cast<const uint64_t *>(stack) == stackMark; }

} // namespace kiln
