#!/usr/bin/env python3
"""Builds the preset fuzz and runs fuzz targets, each for a time or a number of inputs.

    tests/fuzz/run.py                              every target, a minute each
    tests/fuzz/run.py plan ir --seconds 600
    tests/fuzz/run.py pipeline --runs 200000

The folder that --corpus names keeps inputs that reach new code from run to run. For each failing input, the command
that runs it again is printed. Once the bug is fixed, the input belongs in tests/fuzz/corpus/TARGET.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = SOURCE_TREE / "build" / "fuzz"
# Longer inputs are slower and rarely find more. The tokenizer's files are as long as a real vocabulary.
LONGEST = {"tokenizer-files": 20000, "pipeline": 8192, "plan": 8192, "gguf": 8192, "llmc": 8192, "tokenizer": 1024, "strategies": 512, "command-line": 512}


def targets():
    """All targets in the build."""
    text = (SOURCE_TREE / "tests" / "fuzz" / "CMakeLists.txt").read_text()
    return re.findall(r"^kiln_fuzz_target\((\S+)", text, re.MULTILINE)


def build(names):
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "fuzz"], cwd=SOURCE_TREE, check=True)
    programs = [f"kiln-fuzz-{name}" for name in [*names, "seeds"]]
    subprocess.run(["cmake", "--build", BUILD, "--target", *programs, "--", "--quiet"], check=True)


def fuzz(name, options, seeds, scratch):
    """Runs a target, prints the result, and returns the failing inputs."""
    corpus, findings = options.corpus / name, options.corpus / "findings" / name
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    # The folder with the shortest inputs comes first: libFuzzer prefers small inputs for mutation.
    folders = [folder for folder in (corpus, SOURCE_TREE / "tests" / "fuzz" / "corpus" / name, seeds / name) if folder.is_dir()]
    command = [BUILD / "bin" / f"kiln-fuzz-{name}", f"-artifact_prefix={findings}/", "-print_final_stats=1", "-timeout=20",
               "-mutate_depth=1", "-rss_limit_mb=4096", f"-max_len={LONGEST.get(name, 4096)}"]
    command.append(f"-runs={options.runs}" if options.runs else f"-max_total_time={options.seconds}")
    if options.seed is not None:
        command.append(f"-seed={options.seed}")
    dictionary = seeds / f"{name}.dict"
    if dictionary.exists():
        command.append(f"-dict={dictionary}")
    log = options.corpus / f"{name}.log"
    # Recording where memory was allocated takes time, and only matters when a finding is run again.
    environment = {"ASAN_OPTIONS": "malloc_context_size=2", **os.environ, "TMPDIR": scratch}
    with open(log, "wb") as file:
        code = subprocess.run([*command, *folders], stdout=file, stderr=file, env=environment).returncode
    text = log.read_text(errors="replace")
    found = sorted(set(findings.iterdir()) - before)
    print(f"{name:16} {summary(text)}  {f'{len(found) or 1} finding(s)' if code else 'passed'}", flush=True)
    if code:
        report(name, text, found, log)
    return code


def summary(text):
    def last(pattern):
        matches = re.findall(pattern + r" *(\d+)", text)
        return matches[-1] if matches else "?"
    executed, rate, edges = last("number_of_executed_units:"), last("average_exec_per_sec:"), last("cov:")
    return f"{executed:>9} inputs, {rate:>6} a second, {edges:>6} edges"


def report(name, text, found, log):
    """Prints the message of a finding, and the command that reproduces it."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines)
                  if re.search(r"^fuzz: |runtime error: |ERROR: |Assertion|LLVM ERROR|terminate called", line)), len(lines) - 5)
    print("\n".join("    " + line[:240] for line in lines[max(0, start) : start + 14]))
    print(f"    all of it: {log}")
    for path in found:
        print(f"    again: {BUILD / 'bin' / f'kiln-fuzz-{name}'} {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: every one: " + ", ".join(targets()))
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    length.add_argument("--runs", type=int, help="inputs of each target, in place of seconds")
    parser.add_argument("--seed", type=int, help="of the random numbers; default: another one every time")
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kiln-fuzz"
    parser.add_argument("--corpus", type=pathlib.Path, default=default, help=f"where inputs are kept (default: {default})")
    options = parser.parse_args()
    for name in options.targets:
        if name not in targets():
            parser.error(f"unknown target {name}, expected some of {', '.join(targets())}")
    options.corpus = options.corpus.resolve()
    names = options.targets or targets()
    build(names)
    scratch = tempfile.mkdtemp(prefix="kiln-fuzz-")
    try:
        seeds = pathlib.Path(scratch) / "seeds"
        subprocess.run([BUILD / "bin" / "kiln-fuzz-seeds", seeds], check=True)
        failed = [name for name in names if fuzz(name, options, seeds, scratch)]
    finally:
        shutil.rmtree(scratch)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
