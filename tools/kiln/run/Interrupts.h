//===- Interrupts.h - Ctrl-C as an event ----------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// While the object lives, SIGINT does not end the program: it is taken by whoever asks. One object at a time.
class Interrupts {
public:
  /// Error: the system has no descriptors left.
  static Expected<std::unique_ptr<Interrupts>> create();
  ~Interrupts();
  Interrupts(const Interrupts &) = delete;
  Interrupts &operator=(const Interrupts &) = delete;

  /// Whether there was an interrupt since the last call.
  bool take();

  enum class Event { Input, HangUp, Interrupt };

  /// Waits until standard input can be read, its other end is closed, or an interrupt comes, which is then taken.
  Event awaitInput();

private:
  Interrupts() = default;
};

} // namespace kiln
