#include "tools/kiln/run/Interrupts.h"

#include "support/Diagnostic.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace kiln {

// Any thread may get the signal, so that a read in another one is not interrupted: a pipe wakes it up.
static std::array<int, 2> interruptPipe = {-1, -1};
static struct sigaction actionBefore;

static void onInterrupt(int) {
  const int error = errno;
  if (write(interruptPipe[1], "", 1) < 0) {
    // The pipe is full of interrupts that nobody has taken.
  }
  errno = error;
}

Expected<std::unique_ptr<Interrupts>> Interrupts::create() {
  if (pipe2(interruptPipe.data(), O_NONBLOCK | O_CLOEXEC) != 0)
    return makeError("cannot wait for Ctrl-C: " + std::error_code(errno, std::generic_category()).message());
  struct sigaction action = {};
  action.sa_handler = onInterrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &actionBefore);
  return std::unique_ptr<Interrupts>(new Interrupts);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &actionBefore, nullptr);
  for (int &end : interruptPipe)
    close(std::exchange(end, -1));
}

bool Interrupts::take() {
  std::array<char, 64> buffer;
  bool isAny = false;
  while (read(interruptPipe[0], buffer.data(), buffer.size()) > 0)
    isAny = true;
  return isAny;
}

Interrupts::Event Interrupts::awaitInput() {
  for (;;) {
    std::array<pollfd, 2> polled = {{{STDIN_FILENO, POLLIN, 0}, {interruptPipe[0], POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0)
      continue; // another signal
    if (take())
      return Event::Interrupt;
    if (polled[0].revents & POLLIN)
      return Event::Input;
    if (polled[0].revents != 0)
      return Event::HangUp;
  }
}

} // namespace kiln
