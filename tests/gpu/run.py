#!/usr/bin/env python3
"""Runs everything that needs a GPU, and prints what failed.

  tests/gpu/run.py [--kiln PATH] [--tests PATH] [--jobs N] [--filter PATTERN]

These are the GPU test program (in several processes, so that kernels compile on all cores), and the tests of whole
models that tests/run has for the emulated device, run on cuda:0. Without a GPU, prints so and exits with 0.
"""

import argparse
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import time

from machine import HERE, SOURCE, environment, find_program


def run_tests(program, jobs, pattern, prefix=(), shards=None, seconds=None, **variables):
    """Runs the test program in `shards` processes (default: `jobs`), `jobs` at a time, each with the command `prefix`
    before it. Returns (exit code, output) of each; one that has not ended after `seconds` is killed, and has None as its
    exit code."""
    shards = shards or jobs
    running = set()

    def run(index):
        shard = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index), "GTEST_BRIEF": "1"}
        # A session of its own, since the prefix has processes of its own, which must end with it.
        with subprocess.Popen([*prefix, program, f"--gtest_filter={pattern}"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", cwd=SOURCE, start_new_session=True,
                              env={**environment(), **shard, **variables}) as process:
            running.add(process.pid)
            try:
                output, _ = process.communicate(timeout=seconds)
                return process.returncode, output
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None, process.communicate()[0]
            finally:
                running.remove(process.pid)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(run, range(shards)))
        except KeyboardInterrupt:
            for pid in list(running):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", help="the program (default: that of a build, or bin/kiln)")
    parser.add_argument("--tests", help="kiln_gpu_tests, likewise")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--filter", default="*", help="of the test program's tests, as --gtest_filter")
    arguments = parser.parse_args()
    kiln, tests = find_program("kiln", arguments.kiln), find_program("kiln_gpu_tests", arguments.tests)
    start, failed = time.monotonic(), []

    for code, output in run_tests(tests, arguments.jobs, arguments.filter):
        if "skipped: no GPU" in output:
            print(output.strip())
            return 0
        if code != 0:
            failed.append(f"kiln_gpu_tests (exit code {code})")
            print(output)
    print(f"kiln_gpu_tests: {'failed' if failed else 'passed'} after {time.monotonic() - start:.0f} s", flush=True)

    for script in ("emulated_model", "emulated_variants", "strategies", "ladder", "trace"):
        script = f"tests/run/test_{script}.py"
        result = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, script)],
                                env={**environment(), "KILN": kiln, "KILN_DEVICE": "cuda:0"})
        if result.returncode != 0:
            failed.append(f"{script} on cuda:0")
    print("failed: " + ", ".join(failed) if failed else f"all passed in {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
