"""Runs clang-tidy with the .clang-tidy of the source tree on every source that the build compiles.

A file that has passed is not checked again until it, a project header that it includes, its flags or .clang-tidy
change: a stamp in the build folder holds a hash of them all.

    python3 tests/lint/clang_tidy.py --build build/dev                    every file
    python3 tests/lint/clang_tidy.py --build build/dev compiler/ir        files below a folder, or one file
    python3 tests/lint/clang_tidy.py --build build/dev --since HEAD~1     files that differ from a commit, or include
    one that does
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
OWN_NAME = re.compile(rb"^(?:template <.*> )?(?:static|constexpr) [^;={(]*?(\w+)(?:\(| =)", re.MULTILINE)
SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]


def parse_flags(command, source):
    """The flags of a compile command that affect the meaning of code. The others, for warnings and the compiler's own
    precompiled header, do not matter to clang-tidy."""
    arguments = iter(shlex.split(command)[1:])
    flags = []
    for argument in arguments:
        if argument in ("-o", "-c", "-include"):
            next(arguments)
        elif argument == "-isystem":
            flags += [argument, next(arguments)]
        elif argument.startswith(("-I", "-D", "-std", "-march", "-pthread")):
            flags.append(argument)
    return flags


class Sources:
    """Files of the project: their bytes, and the project headers that they include. Each file is read once."""

    def __init__(self, build):
        self.roots = [SOURCE_TREE, build]
        self.known = {}

    def read(self, path):
        if path not in self.known:
            content = path.read_bytes()
            self.known[path] = (content, [name.decode() for name in INCLUDE.findall(content)])
        return self.known[path]

    def resolve(self, name, includer, folders):
        for folder in [includer.parent, *folders]:
            path = folder / name
            if path.is_file():
                return path
        return None

    def closure(self, path, flags):
        """A source and everything that it includes, in the order in which they are found."""
        folders = [pathlib.Path(flag[2:]) for flag in flags if flag.startswith("-I")]
        seen, pending = {path: None}, [path]
        while pending:
            current = pending.pop()
            for name in self.read(current)[1]:
                header = self.resolve(name, current, folders)
                if header and header not in seen:
                    seen[header] = None
                    pending.append(header)
        return list(seen)

    def hash(self, files, flags, start):
        """The hash of files, given as `closure` returns them."""
        state = hashlib.sha256(start)
        state.update("\0".join(flags).encode())
        for path in files:
            state.update(hashlib.sha256(self.read(path)[0]).digest())
        return state.hexdigest()


class Linter:
    def __init__(self, options):
        self.options = options
        self.work = options.build / "lint"
        self.work.mkdir(exist_ok=True)
        # A file's rules lie in a folder above it; this copy is for the units made here.
        (self.work / ".clang-tidy").write_bytes((SOURCE_TREE / ".clang-tidy").read_bytes())
        self.sources = Sources(options.build)
        version = subprocess.run([options.clang_tidy, "--version"], capture_output=True, check=True).stdout
        self.start = version + (SOURCE_TREE / ".clang-tidy").read_bytes()
        self.prelude = []

    def compile_prelude(self, jobs):
        """Compiles the one header that everything includes beforehand, since most of the time goes into it. It has the
        macros that all files have alike: clang refuses a precompiled header in which one is another."""
        if not self.options.clang:
            return
        flags = [flag for flag in jobs[0].flags if not flag.startswith("-D") or all(flag in job.flags for job in jobs)]
        header = self.work / "ADT.pch"
        subprocess.run([self.options.clang, *flags, "-fpch-instantiate-templates", "-x", "c++-header",
                        SOURCE_TREE / "compiler/support/ADT.h", "-o", header], check=True)
        self.prelude = ["-include-pch", str(header)]

    def stamp(self, path):
        return self.work / (name_of(path) + ".passed")

    def has_passed(self, job):
        stamp = self.stamp(job.path)
        return stamp.exists() and stamp.read_text() == job.key

    def check(self, batch):
        """Whether the files of a batch pass; prints their errors."""
        unit = batch[0].path
        if len(batch) > 1:
            unit = self.work / (name_of(batch[0].path) + ".batch.cpp")
            unit.write_text("".join(f'#include "{job.path}"\n' for job in batch))
        # Matches our headers wherever the source tree is. A batch includes its files, so they count as headers, too.
        headers = f"--header-filter=^{re.escape(str(SOURCE_TREE))}/(api|compiler|include|runtime|tests|tools)/"
        result = subprocess.run([self.options.clang_tidy, "--quiet", headers, unit, "--", *batch[0].flags,
                                 *self.prelude], capture_output=True, text=True)
        if result.returncode == 0:
            for job in batch:
                self.stamp(job.path).write_text(job.key)
            return True
        if "clang-diagnostic-error" in result.stdout and len(batch) > 1:
            # Two files of the batch may define the same name, so check its halves separately.
            middle = len(batch) // 2
            return all([self.check(batch[:middle]), self.check(batch[middle:])])
        print(result.stdout.strip() or result.stderr.strip(), flush=True)
        return False


@dataclasses.dataclass
class Job:
    path: pathlib.Path
    flags: list
    key: str


def name_of(path):
    return str(path.relative_to(SOURCE_TREE)).replace("/", "__")


def make_batches(jobs):
    """Groups files of one folder with the same flags, since most of the time goes into headers. Files with the same
    static name must not be in one batch."""
    groups = collections.defaultdict(list)
    for job in jobs:
        groups[job.path.parent, tuple(job.flags)].append(job)
    for group in groups.values():
        batches = []
        for job in group:
            names = set(OWN_NAME.findall(job.path.read_bytes()))
            batch = next((batch for batch in batches if len(batch[0]) < 16 and not names & batch[1]), None)
            if batch is None:
                batches.append(batch := ([], set()))
            batch[0].append(job)
            batch[1].update(names)
        yield from (files for files, _ in batches)


def read_sources(entry, build):
    """The sources of the project that a build command compiles: one, or the several that a unity build combines."""
    path, sources = pathlib.Path(entry["file"]), []
    if path.parent.name == "Unity":
        sources = [pathlib.Path(name.decode()) for name in INCLUDE.findall(path.read_bytes())]
    return [source for source in sources or [path]
            if source.is_relative_to(SOURCE_TREE) and not source.is_relative_to(build)]


def read_commands(build, wanted):
    """(source, flags) of every requested source of the project that the build compiles."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for path in read_sources(entry, build):
            if not wanted or any(path.is_relative_to(folder) for folder in wanted):
                yield path, parse_flags(entry["command"], path)


def differing(commit):
    """Files of the working tree that differ from a commit. None if git is missing or fails, or if the rules differ."""
    names = set()
    for command in (["diff", "--name-only", commit], ["ls-files", "--others", "--exclude-standard"]):
        try:
            result = subprocess.run(["git", *command], cwd=SOURCE_TREE, capture_output=True, text=True, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            return None
        names.update(result.stdout.split("\n"))
    if {".clang-tidy", "tests/lint/clang_tidy.py"} & names:
        return None
    return {SOURCE_TREE / name for name in names if name}


def make_jobs(linter, commands, since):
    """The files to check, which have not passed as they are, and the total number of files."""
    wanted = differing(since) if since else None
    jobs = []
    for path, flags in commands:
        files = linter.sources.closure(path, flags)
        if wanted is None or not wanted.isdisjoint(files):
            jobs.append(Job(path, flags, linter.sources.hash(files, flags, linter.start)))
    return [job for job in jobs if not linter.has_passed(job)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--clang-tidy", default="clang-tidy-19")
    parser.add_argument("--clang", default="", help="clang++ of the same version, to precompile what all files include")
    parser.add_argument("--since", default="", help="only what differs from this commit, if git knows it")
    parser.add_argument("wanted", nargs="*", type=pathlib.Path, help="files or folders; all when left out")
    options = parser.parse_args()
    options.build = options.build.resolve()

    linter = Linter(options)
    commands = list(read_commands(options.build, [path.resolve() for path in options.wanted]))
    changed = make_jobs(linter, commands, options.since)
    if changed:
        linter.compile_prelude(changed)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(linter.check, make_batches(changed)))
    print(f"{len(commands)} files, of which {len(changed)} were checked: {'passed' if all(results) else 'failed'}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
