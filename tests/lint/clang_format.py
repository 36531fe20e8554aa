"""Checks that clang-format would leave all C++ and CUDA files of the source tree unchanged.

    python3 tests/lint/clang_format.py          lists the changes that it would make
    python3 tests/lint/clang_format.py --fix    makes these changes
"""
import argparse
import pathlib
import subprocess
import sys

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["api", "compiler", "examples", "include", "runtime", "templates", "tests", "tools"]
SUFFIXES = [".c", ".cpp", ".h", ".cuh", ".cu"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clang-format", default="clang-format-19")
    parser.add_argument("--fix", action="store_true", help="format the files")
    options = parser.parse_args()
    files = sorted(path for folder in FOLDERS for path in (SOURCE_TREE / folder).rglob("*") if path.suffix in SUFFIXES)
    mode = ["-i"] if options.fix else ["--dry-run", "-Werror", "--ferror-limit=1"]
    result = subprocess.run([options.clang_format, *mode, *files])
    if result.returncode:
        print("\nformat them with: python3 tests/lint/clang_format.py --fix")
    else:
        print(f"{len(files)} files: {'formatted' if options.fix else 'passed'}")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
