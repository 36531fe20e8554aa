"""Prints two Python interpreters, a line each: the one to build api/python's wheel with, and the one to use it with.

From Python 3.12 on, one wheel serves every later version: the oldest such interpreter of this machine builds it, the
newest uses it. Without any, python3 does both. Interpreters without pip, venv or their headers do not count; prints
nothing if none is left. tools/test fetches wheels for these two, and tests/api/test_python.py uses them.
"""
import glob
import os
import shutil
import subprocess
import sys

OLDEST, FIRST_OF_ABI = (3, 11), (3, 12)
# Prints the version of an interpreter that will do. Free-threaded ones have another binary interface.
PROBE = """import ensurepip, os, pip, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
is_final = sys.version_info.releaselevel == "final"
if os.path.exists(header) and is_final and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print(*sys.version_info[:2])
"""


def candidates():
    """Interpreters on PATH, and pyenv's, whose commands on PATH need not run."""
    yield "/usr/bin/python3"
    for name in ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], 20))]:
        if found := shutil.which(name):
            yield found
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    yield from sorted(glob.glob(os.path.join(root, "versions", "*", "bin", "python3")))


def version_of(python):
    """(3, 12), or None if the interpreter will not do."""
    try:
        probed = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = tuple(map(int, probed.stdout.split())) if probed.returncode == 0 else ()
    return numbers if numbers >= OLDEST else None


def choose():
    """[(version, path)] of the two, or []."""
    known = {}
    for python in candidates():
        if version := version_of(python):
            known.setdefault(version, python)
    of_abi = sorted(version for version in known if version >= FIRST_OF_ABI) or sorted(known)[:1]
    return [(version, known[version]) for version in (of_abi[0], of_abi[-1])] if of_abi else []


if __name__ == "__main__":
    for _, path in choose():
        print(path)
    sys.exit(0)
