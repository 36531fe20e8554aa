//===- Descriptor.h - an open file, socket or shared memory ---------------===//
#pragma once

#include "support/ADT.h"

#include <fcntl.h>
#include <unistd.h>

namespace kiln {

/// A file descriptor, closed with this object.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : opened(number) {}
  Descriptor(Descriptor &&other) noexcept : opened(std::exchange(other.opened, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(opened, other.opened);
    return *this;
  }
  ~Descriptor() {
    if (isOpen())
      ::close(opened);
  }

  bool isOpen() const { return opened >= 0; }
  int number() const { return opened; }

  /// Another descriptor of the same file; not open if the system has none left.
  Descriptor duplicate() const { return Descriptor(fcntl(opened, F_DUPFD_CLOEXEC, 0)); }

private:
  int opened = -1;
};

/// What the last failed call of the system says, `: No such file or directory`.
inline std::string systemReason() { return ": " + std::error_code(errno, std::generic_category()).message(); }

} // namespace kiln
