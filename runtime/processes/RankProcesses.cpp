#include "runtime/processes/RankProcesses.h"

#include "runtime/processes/RankPlace.h"
#include "support/Diagnostic.h"
#include "support/files/Descriptor.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>

extern char **environ;

namespace kiln {

namespace {

constexpr std::chrono::seconds killPatience(3); // for processes that should end by themselves

/// Strings as execve takes them.
class StringArray {
public:
  explicit StringArray(std::vector<std::string> strings) : strings(std::move(strings)) {
    for (std::string &one : this->strings)
      pointers.push_back(one.data());
    pointers.push_back(nullptr);
  }
  char *const *get() const { return pointers.data(); }

private:
  std::vector<std::string> strings;
  std::vector<char *> pointers;
};

std::vector<std::string> environmentOf(int64_t rank, int64_t ranks) {
  std::vector<std::string> all;
  const std::string watcher = std::to_string(getpid());
  for (char **one = environ; *one; ++one)
    if (!StringRef(*one).starts_with("KILN_RANK") && !StringRef(*one).starts_with("KILN_JOB="))
      all.emplace_back(*one);
  all.push_back(rankVariable + ("=" + std::to_string(rank)));
  all.push_back(ranksVariable + ("=" + std::to_string(ranks)));
  all.push_back(jobVariable + ("=" + watcher));
  all.push_back(watcherVariable + ("=" + watcher));
  return all;
}

/// The processes, and how they end.
class RankProcesses {
public:
  ~RankProcesses() {
    killAll();
    while (running() > 0)
      await(std::chrono::seconds(1));
  }

  Error start(int64_t ranks, ArrayRef<std::string> arguments);
  Expected<int> awaitAll();

private:
  struct Process {
    pid_t id = -1;
    bool hasEnded = false;
    int status = 0;

    bool hasFailed() const { return hasEnded && (!WIFEXITED(status) || WEXITSTATUS(status) != 0); }
  };

  size_t running() const {
    return static_cast<size_t>(llvm::count_if(processes, [](const Process &one) { return !one.hasEnded; }));
  }
  void killAll() {
    for (const Process &one : processes)
      if (!one.hasEnded)
        kill(one.id, SIGKILL);
  }
  void await(std::chrono::milliseconds patience);

  std::vector<Process> processes;
  std::optional<size_t> firstFailed;
};

/// In the new process: becomes a rank. Only calls that are safe after fork() of a process with threads.
[[noreturn]] void becomeRank(bool isFirst, pid_t parent, char *const *arguments, char *const *environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1); // it has ended already
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Ctrl-C is the first rank's: the others end with it.
  std::signal(SIGINT, isFirst ? SIG_DFL : SIG_IGN);
  if (!isFirst) {
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing > STDIN_FILENO) {
      dup2(nothing, STDIN_FILENO);
      close(nothing);
    }
  }
  execve("/proc/self/exe", arguments, environment);
  _exit(127);
}

Error RankProcesses::start(int64_t ranks, ArrayRef<std::string> arguments) {
  std::vector<std::string> all = {"kiln"};
  llvm::append_range(all, arguments);
  const StringArray words(std::move(all));
  const pid_t parent = getpid();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const StringArray environment(environmentOf(rank, ranks));
    const pid_t id = fork();
    if (id == 0)
      becomeRank(rank == 0, parent, words.get(), environment.get());
    if (id < 0)
      return makeError("cannot start a process for rank " + Twine(rank) + systemReason());
    processes.push_back({id});
  }
  return Error::success();
}

/// Waits until a process ends, and notes all that have.
void RankProcesses::await(std::chrono::milliseconds patience) {
  auto note = [&] {
    bool isAny = false;
    for (auto [rank, one] : llvm::enumerate(processes))
      if (!one.hasEnded && waitpid(one.id, &one.status, WNOHANG) == one.id) {
        one.hasEnded = isAny = true;
        // One that is killed says more than another that ends because of that.
        if (one.hasFailed() && (!firstFailed || (WIFSIGNALED(one.status) && WIFEXITED(processes[*firstFailed].status))))
          firstFailed = rank;
      }
    return isAny;
  };
  if (note())
    return;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const timespec time = {patience.count() / 1000, patience.count() % 1000 * 1000000};
  sigtimedwait(&child, nullptr, &time);
  note();
}

Expected<int> RankProcesses::awaitAll() {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  while (running() > 0) {
    await(std::chrono::milliseconds(500));
    const auto now = std::chrono::steady_clock::now();
    if (firstFailed && !deadline)
      deadline = now + killPatience;
    if (deadline && now > *deadline)
      break;
  }
  if (!firstFailed)
    return 0;
  const int status = processes[*firstFailed].status;
  killAll();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) { // Ctrl-C ends this process, too
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  if (WIFSIGNALED(status))
    return makeError("rank " + Twine(*firstFailed) + " was killed by signal " + Twine(WTERMSIG(status)) + " (" +
                     strsignal(WTERMSIG(status)) + ")");
  for (const Process &one : processes)
    if (one.hasFailed() && WIFEXITED(one.status) && WEXITSTATUS(one.status) != untoldExitCode)
      return WEXITSTATUS(one.status);
  return makeError("rank " + Twine(*firstFailed) + " has ended with exit code " + Twine(WEXITSTATUS(status)) +
                   ", without a message");
}

} // namespace

Expected<int> runRankProcesses(int64_t ranks, ArrayRef<std::string> arguments) {
  std::signal(SIGINT, SIG_IGN); // until the first rank has ended
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  RankProcesses processes;
  if (Error error = processes.start(ranks, arguments))
    return error;
  return processes.awaitAll();
}

} // namespace kiln
