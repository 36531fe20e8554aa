//===- RefuseCalls.h - simulating a system that refuses calls -------------===//
#pragma once

#include <cerrno>
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

namespace kiln {

/// Makes these system calls fail with `error` from now on, in this process and its children; for the child of a death
/// test. False if the system has no such filters.
inline bool refuseCalls(const std::vector<long> &calls, int error) {
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (long call : calls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Exit codes of the statement in EXPECT_EXIT.
constexpr int passed = 0, failed = 1, cannotTest = 77;
inline bool hasPassed(int status) {
  return WIFEXITED(status) && (WEXITSTATUS(status) == passed || WEXITSTATUS(status) == cannotTest);
}

} // namespace kiln
