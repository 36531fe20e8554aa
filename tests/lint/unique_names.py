"""Checks that no two headers define a class of the same name. All classes are in one namespace, and a program that
contains both would silently mix up their members.

    python3 tests/lint/unique_names.py
"""
import collections
import pathlib
import re
import sys

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
# Only at the start of a line: classes inside others and mere declarations do not count.
CLASS = re.compile(r"^(?:template <.*> ?)?(?:class|struct|union|enum class)(?: alignas\(\w+\))? (\w+)(?: final)?(?: :| ?{|$)",
                   re.MULTILINE)
# Templates of kernels are not checked, since each is compiled with one kernel.
FOLDERS = ("api", "compiler", "runtime", "tools", "tests")


def definitions():
    places = collections.defaultdict(list)
    for folder in FOLDERS:
        for header in sorted((SOURCE_TREE / folder).rglob("*.h")):
            text = header.read_text()
            for match in CLASS.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                places[match[1]].append(f"{header.relative_to(SOURCE_TREE)}:{line}")
    return places


def main():
    places = definitions()
    shared = {name: where for name, where in places.items() if len(where) > 1}
    for name, where in shared.items():
        print(f"{where[1]}: error: {name} is defined in {where[0]} too")
    print(f"{len(places)} classes: {'failed' if shared else 'passed'}")
    return 1 if shared else 0


if __name__ == "__main__":
    sys.exit(main())
