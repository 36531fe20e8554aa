#include "support/process/Process.h"

#include "support/Diagnostic.h"
#include "support/text/Printable.h"

#include <atomic>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <system_error>
#include <unistd.h>

namespace kiln {

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Opens /dev/null in the place of each closed stream, in the opposite mode, so that reading or writing it fails.
static void reserveStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null",
           stream == STDIN_FILENO ? O_WRONLY : O_RDONLY); // gets the lowest free number, which is this stream's
}

/// Whether the stream's reader has closed its end.
static bool isReaderGone(int stream) {
  pollfd polled{stream, 0, 0};
  return poll(&polled, 1, 0) == 1 && (polled.revents & POLLERR) != 0;
}

static void onBrokenPipe(int) {
  if (!isReaderGone(STDOUT_FILENO))
    return; // the write to another pipe fails with EPIPE instead
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

raw_ostream &standardOutput() {
  if (!llvm::sys::Process::StandardOutIsDisplayed())
    return llvm::outs();
  static PrintableStream terminal(llvm::outs());
  return terminal;
}

Error flushStandardOutput() {
  raw_fd_ostream &os = llvm::outs();
  os.flush();
  if (!os.has_error())
    return Error::success();
  std::error_code failure = os.error();
  os.clear_error();
  return makeError("standard output: cannot write: " + failure.message());
}

int finishProcess(Error error, int exitCode, int failureCode) {
  std::string text;
  raw_string_ostream os(text);
  for (const Diagnostic &diagnostic : takeDiagnostics(llvm::joinErrors(std::move(error), flushStandardOutput()))) {
    diagnostic.print(os);
    exitCode = failureCode;
  }
  llvm::errs() << text; // in one piece: several ranks may write to one terminal
  llvm::errs().clear_error();
  return exitCode;
}

//===----------------------------------------------------------------------===//
// Memory and threads
//===----------------------------------------------------------------------===//

/// Must not allocate: it runs when memory has run out.
void endProcess(StringRef message) {
  static std::atomic_flag isEnding;
  while (isEnding.test_and_set())
    pause(); // another thread's message is enough
  if (write(STDERR_FILENO, message.data(), message.size()) < 0) {
    // The message cannot be written anywhere else.
  }
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  _exit(1);
}

[[noreturn]] static void endWithoutMemory() {
  endProcess("error: out of memory: the machine or its limits (ulimit -v) allow no more\n");
}

/// Handles uncaught exceptions: libraries throw them if the system refuses memory for a stack, or a thread.
[[noreturn]] static void onTerminate() {
  try {
    if (std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::bad_alloc &) {
    endWithoutMemory();
  } catch (const std::system_error &error) {
    if (error.code() == std::errc::resource_unavailable_try_again)
      endProcess(
          "error: cannot start a thread: the limits on threads or memory (ulimit -u, ulimit -v) allow no more\n");
  } catch (...) {
  }
  std::abort();
}

void prepareProcess() {
  reserveStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);
  if (std::signal(SIGPIPE, onBrokenPipe) == SIG_IGN)
    std::signal(SIGPIPE, SIG_IGN); // keep it ignored if it was ignored at the start
  std::set_new_handler(endWithoutMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { endWithoutMemory(); });
  std::set_terminate(onTerminate);
}

} // namespace kiln
