//===- Fiber.h - a function on a stack of its own -------------------------------===//
//
// The threads of an emulated block are fibers: they switch at barriers and collectives only, within one
// thread of the operating system. The switch is Boost.Context's; this file adds stacks that are cheap to have
// by the thousand, and tells AddressSanitizer about them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <boost/context/fiber.hpp>

namespace kiln {

/// Hands out stacks of one size. They come from large mappings; the system gives memory to a page when it is first
/// written. The mappings live as long as the pool. There are no guard pages: each would be a mapping of its own, and
/// the threads of a large cooperative grid would exceed the system's limit on mappings. A stack that overflows writes
/// into unused space below it.
class FiberStacks {
public:
  FiberStacks() = default;
  FiberStacks(const FiberStacks &) = delete;
  FiberStacks &operator=(const FiberStacks &) = delete;
  ~FiberStacks();

  /// Bytes of a stack. AddressSanitizer makes frames several times larger.
  static size_t stackBytes();

  /// The lowest address of an unused stack; null when the system has no room for more.
  void *take();

  /// Whether an address is on a stack that `take` has handed out, or next to one.
  bool contains(const void *address) const;

private:
  struct Slab {
    void *base;
    size_t used;
  };
  std::vector<Slab> slabs;
};

/// Runs `body` when first resumed, and continues where it was suspended when resumed again, possibly by another thread
/// of the operating system. `body` must have returned when the fiber is destroyed.
class Fiber {
public:
  /// `stack`: from FiberStacks::take, for this fiber alone.
  Fiber(void *stack, std::function<void()> body);
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Switches to the fiber; returns when it suspends or its body returns.
  void resume();

  /// Called by the body: switches back to the caller of resume.
  void suspend();

  /// Whether an address is on this stack.
  bool contains(const void *address) const;

  /// False if the body has written past the end of its stack since it was started.
  bool isStackIntact() const;

private:
  void enterFromResume();

  void *stack;
  std::function<void()> body;
  boost::context::fiber inside;  ///< the body's side while it is suspended
  boost::context::fiber outside; ///< the resumer's side while the body runs

  // What AddressSanitizer needs at each switch: the resumer's stack, and both sides' shadow frames.
  const void *outsideStack = nullptr;
  size_t outsideBytes = 0;
  void *outsideFrames = nullptr;
  void *insideFrames = nullptr;
};

} // namespace kiln
