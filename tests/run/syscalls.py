"""Filters of system calls, for `preexec_fn`: they simulate a system that refuses calls, and a process that is killed in
the middle of its work."""

import ctypes
import errno
import os
import platform
import struct

NUMBERS = {
    "x86_64": {"clone": 56, "clone3": 435, "flock": 73, "mkdir": 83, "rename": 82, "renameat2": 316, "rmdir": 84, "unlink": 87},
    "aarch64": {"clone": 220, "clone3": 435, "flock": 32, "mkdir": 34, "rename": 38, "renameat2": 276, "rmdir": 35, "unlink": 35},
}.get(platform.machine())
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000


def _filter(calls, answer):
    """Gives this process, and all that it starts, `answer` for these calls. False if the system has no such filters."""
    code = [(LOAD, 0, 0, 0)]
    for call in calls:
        code += [(JUMP_IF_EQUAL, 0, 1, NUMBERS[call]), (RETURN, 0, 0, answer)]
    code.append((RETURN, 0, 0, ALLOW))
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None)
    no_new_privileges, set_filter = (38, 1, 0, 0, 0), (22, 2, ctypes.byref(program), 0, 0)
    return libc.prctl(*no_new_privileges) == 0 and libc.prctl(*set_filter) == 0


def refuse(*calls):
    """The calls fail as at a user's limit: `Resource temporarily unavailable`."""
    return _filter(calls, FAIL | errno.EAGAIN)


def kill_at(*calls):
    """The first of these calls ends the process at once, like SIGKILL."""
    return _filter(calls, KILL)


def are_available():
    """Whether the system and this machine have such filters. A child process tries it."""
    if NUMBERS is None:
        return False
    child = os.fork()
    if child == 0:
        os._exit(0 if refuse("flock") else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
