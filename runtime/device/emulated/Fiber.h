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

/// Hands out stacks of one size. They come from large mappings that are given memory by the system when they
/// are first written, and are never returned before the pool dies. Guard pages would be a mapping each, and
/// the threads of a large cooperative grid would exceed the system's limit on those: what overflows, writes
/// into unused space below.
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

  /// Whether an address is on a stack that `take` has handed out, or beside one.
  bool contains(const void *address) const;

private:
  struct Slab {
    void *base;
    size_t used;
  };
  std::vector<Slab> slabs;
};

/// Runs `body` when first resumed, and goes on where it suspended when resumed again. It may be resumed by
/// another thread of the operating system than before. `body` must have returned when the fiber dies.
class Fiber {
public:
  /// `stack`: from FiberStacks::take, for this fiber alone.
  Fiber(void *stack, std::function<void()> body);
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Switches to the fiber; returns when it suspends or its body returns.
  void resume();

  /// From inside the body: switches back to whoever resumed.
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

  // What AddressSanitizer wants to know at each switch: the resumer's stack, and both sides' shadow frames.
  const void *outsideStack = nullptr;
  size_t outsideBytes = 0;
  void *outsideFrames = nullptr;
  void *insideFrames = nullptr;
};

} // namespace kiln
