#!/usr/bin/env python3
"""Runs NVIDIA's compute-sanitizer over the GPU tests and over `kiln run`, and exits with 1 if it finds anything.

  tests/gpu/sanitize.py [--kiln PATH] [--tests PATH] [--tools memcheck,racecheck,initcheck,synccheck] [--jobs N]
                        [--seconds N]

`kiln run` generates text with the embedded model: in f32 and bf16, prompts of unequal length in one batch, with decoding
and sampling on the device; in bf16 also one prompt, whose tokens one kernel for all layers makes, sampled and greedy. Of
the GPU tests, all whole models but the smallest are left out, since they would take minutes each. The others run in
groups of a few. A group that has not ended after --seconds is killed, and the test that it was at is named: with
racecheck, those of speculation and of generation take minutes.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time

from machine import SHAKESPEARE, SOURCE, environment, find_program
from run import run_tests

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PATTERN = "-*ModelTest*embedded*:*ModelTest*odd*:*EveryStep*"
# initcheck does not see stores by the copy engine, which kernels of cuBLASLt use for their results. It would report
# every read of these results.
UNSEEN = {"initcheck": ":*cublaslt*"}
# The number of a kernel's parameters is found by asking for further ones until the driver returns an error, which
# memcheck would report. The programs check all other results of API calls themselves.
OPTIONS = {"memcheck": ["--report-api-errors", "no"]}
PROMPTS = ["--prompt", "ROMEO:"], ["--prompt", "First Citizen:\nBefore we proceed any further, hear me speak."]
SAMPLING = ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.9", "--seed", "1"]
ONE_KERNEL = ["--dtype", "bf16", "--decode", "persistent", *PROMPTS[0]]
RUNS = {
    "f32": ["--dtype", "f32", *PROMPTS[0], *PROMPTS[1], *SAMPLING],
    "bf16": ["--dtype", "bf16", *PROMPTS[0], *PROMPTS[1], *SAMPLING],
    "bf16, one kernel for all layers": [*ONE_KERNEL, *SAMPLING],
    "bf16, one kernel for all layers, greedy": [*ONE_KERNEL, "--greedy"],
}
GROUPS = 8  # of tests, for each job
FOUND = 86  # exit code of compute-sanitizer if it has found something; otherwise it returns the program's own


def find_sanitizer(given):
    places = [given] if given else [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
                                    "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    for place in places:
        if place and os.access(place, os.X_OK):
            return place
    sys.exit("error: compute-sanitizer: not found; it comes with the CUDA toolkit")


def summarize(what, results, start):
    """Prints the findings; returns whether there are none. `results`: (exit code, output) of each process."""
    if any("skipped: no GPU" in output for _, output in results):
        sys.exit("skipped: no GPU, or no driver for it, on this machine")
    bad = [(code, output) for code, output in results
           if code != 0 or not re.search(r"(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)", output)]
    print(f"{'FAILED' if bad else 'clean '} {what} ({time.monotonic() - start:.0f} s)", flush=True)
    for code, output in bad:
        if code is None:
            print("  did not end at", (re.findall(r"^\[ RUN      \] (.*)", output, re.MULTILINE) or ["the start"])[-1])
            continue
        lines = [line for line in output.splitlines() if line.startswith("=========") or "[  FAILED  ]" in line]
        print(f"  exit code {code}", *(lines or output.splitlines())[:60], sep="\n  ", flush=True)
    return not bad


def check_kiln(kiln, prefix, tool, what):
    command = [*prefix, kiln, "run", SHAKESPEARE, "--device", "cuda:0", *RUNS[what], "--max-new-tokens", "24"]
    start = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=SOURCE,
                            env=environment())
    return summarize(f"{tool} kiln run {what}", [(result.returncode, result.stdout)], start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", help="the program (default: that of a build, or bin/kiln)")
    parser.add_argument("--tests", help="kiln_gpu_tests, likewise")
    parser.add_argument("--sanitizer", help="compute-sanitizer (default: on the path, or in /usr/local/cuda)")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--seconds", type=int, default=900, help="for a group of tests")
    parser.add_argument("--filter", default=PATTERN, help="of the test program's tests, as --gtest_filter")
    arguments = parser.parse_args()
    kiln, tests = find_program("kiln", arguments.kiln), find_program("kiln_gpu_tests", arguments.tests)
    sanitizer = find_sanitizer(arguments.sanitizer)
    clean = True
    for tool in arguments.tools.split(","):
        if tool not in TOOLS:
            parser.error(f"--tools: expected some of {', '.join(TOOLS)}, got '{tool}'")
        prefix = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20",
                  *OPTIONS.get(tool, [])]
        for what in RUNS:
            clean &= check_kiln(kiln, prefix, tool, what)
        start = time.monotonic()
        results = run_tests(tests, arguments.jobs, arguments.filter + UNSEEN.get(tool, ""), prefix,
                            shards=GROUPS * arguments.jobs, seconds=arguments.seconds, GTEST_BRIEF="0",
                            KILN_RANDOM_SHAPES="0")
        clean &= summarize(f"{tool} kiln_gpu_tests", results, start)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
