"""Installs the build of KILN_BUILD for the tests beside this file."""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from kilntest import TIMEOUT

BUILD = os.environ["KILN_BUILD"]
prefix = None


def execute(command, **options):
    """The output of a command that succeeds."""
    result = subprocess.run(list(map(str, command)), capture_output=True, timeout=TIMEOUT, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: exit code {result.returncode}\n"
                             f"{result.stdout.decode()}\n{result.stderr.decode()}")
    return result.stdout.decode()


def install():
    """Installs into a temporary folder, which is removed with the module of tests."""
    global prefix
    prefix = tempfile.mkdtemp(prefix="kiln-installed-")
    unittest.addModuleCleanup(shutil.rmtree, prefix, ignore_errors=True)
    execute(["cmake", "--install", BUILD, "--prefix", prefix])


def files():
    """The installed files, relative to the prefix."""
    return {os.path.relpath(os.path.join(folder, name), prefix) for folder, _, names in os.walk(prefix) for name in names}


def installed(name):
    """The only installed file of that name, or whose path ends with it."""
    found = [path for path in files() if f"/{path}".endswith(f"/{name}")]
    if len(found) != 1:
        raise AssertionError(f"expected one {name} in the installation, got {found}")
    return os.path.join(prefix, found[0])


if __name__ == "__main__":
    sys.exit("this is a library; run the tests beside it")
