#!/usr/bin/env python3
"""Checks that inline assembly in which a whole warp takes part (.sync) is volatile.

  tests/lint/collectives.py

The compiler takes other assembly for a function of its operands: it may give a copy of it to each side of a branch on the
lane, where lanes then wait for each other for ever.
"""

import pathlib
import re
import sys

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "templates"


def main():
    found = failures = 0
    for path in sorted(TEMPLATES.rglob("*.cuh")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r'\basm( volatile)?\(\s*"([^"]*)', text):
            if ".sync" not in match[2]:
                continue
            found += 1
            if not match[1]:
                failures += 1
                line = text.count("\n", 0, match.start()) + 1
                print(f"{path}:{line}: error: expected 'asm volatile': all lanes of a warp take part in {match[2].split()[0]}")
    if found == 0:
        sys.exit("error: found no instruction of whole warps")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
