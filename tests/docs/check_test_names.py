"""Checks that each part of the patterns that the pages give to `ctest -R` is in the name of a test.

    python3 tests/docs/check_test_names.py build/dev
"""
import json
import re
import shlex
import subprocess
import sys

from check_docs import SOURCE_TREE, pages

COMMAND = re.compile(r"\bctest [^\n`#]*")


def patterns(command):
    """`^lit` and `^unit` of -R '^(lit|unit)'."""
    words = shlex.split(command)
    for option, pattern in zip(words, words[1:]):
        if option == "-R":
            anchor, parts = re.fullmatch(r"(\^?)\(?(.*?)\)?", pattern).groups()
            yield from (anchor + part for part in parts.split("|"))


def errors(names):
    for page in pages():
        for command in COMMAND.findall(page.read_text()):
            for pattern in patterns(command):
                if not any(re.search(pattern, name) for name in names):
                    yield f"{page.relative_to(SOURCE_TREE)}: error: `{command.strip()}`: no test's name has {pattern}"


def main():
    listed = subprocess.run(["ctest", "--test-dir", sys.argv[1], "--show-only=json-v1"], check=True, capture_output=True)
    names = [test["name"] for test in json.loads(listed.stdout)["tests"]]
    if any(name.endswith("_NOT_BUILT") for name in names):
        print("skipped: not all tests are built, so that not all names are known")
        return 0
    found = list(errors(names))
    for error in found:
        print(error)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
