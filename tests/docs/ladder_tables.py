"""The tables of docs/ladder.md. Each table follows a comment that names its part of the ladder, <!-- ladder: matmul
-->; its heading names the columns.

    python3 tests/docs/ladder_tables.py check path/to/kiln   checks that every part has a table with its current rungs
    python3 tests/docs/ladder_tables.py update ladder.json   writes the tables of the parts that
                                                             `kiln bench ladder -o json` has measured
"""
import json
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "ladder.md"
TABLE = re.compile(r"<!-- ladder: ([\w-]+) -->\n((?:\|.*\n)+)")
GENERATED_TOKENS = 50  # of the part `generation`


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def row(values):
    return f"| {' | '.join(values)} |\n"


def tables(text):
    """The part and the rows of cells of each table; the first row is the heading."""
    for match in TABLE.finditer(text):
        lines = match[2].splitlines()
        yield match[1], [cells(line) for line in (lines[0], *lines[2:])]


def time_text(microseconds):
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"


COLUMNS = {
    "rung": lambda rungs, i: rungs[i]["rung"],
    "strategy": lambda rungs, i: f"`{rungs[i]['strategy']}`",
    "time": lambda rungs, i: time_text(rungs[i]["median_us"]),
    "over the rung below": lambda rungs, i: f"{rungs[i - 1]['median_us'] / rungs[i]['median_us']:.2f}" if i else "",
    "over the first": lambda rungs, i: f"{rungs[0]['median_us'] / rungs[i]['median_us']:.2f}",
    "of the limit": lambda rungs, i: f"{100 * rungs[i]['limit_us'] / rungs[i]['median_us']:.0f} %",
    "whole pass": lambda rungs, i: time_text(rungs[i]["whole_pass_us"]),
    "TB/s": lambda rungs, i: f"{rungs[i]['bytes'] / rungs[i]['median_us'] * 1e-6:.2f}",
    "registers": lambda rungs, i: str(rungs[i]["kernel"]["registers"]) if "kernel" in rungs[i] else "–",
    "max error": lambda rungs, i: f"{rungs[i]['max_error']:.1e}",
    "perplexity": lambda rungs, i: f"{rungs[i]['perplexity']:.3f}",
    "tokens/s": lambda rungs, i: f"{GENERATED_TOKENS / rungs[i]['median_us'] * 1e6:.0f}",
}


def updated(text, parts):
    def table(match):
        if match[1] not in parts:
            return match[0]
        heading = cells(match[2].splitlines()[0])
        rungs = parts[match[1]]
        rows = [[COLUMNS[name](rungs, i) for name in heading] for i in range(len(rungs))]
        lines = [row(heading), f"|{'---|' * len(heading)}\n", *map(row, rows)]
        return f"<!-- ladder: {match[1]} -->\n{''.join(lines)}"

    return TABLE.sub(table, text)


def listed(kiln):
    """The rungs of each part with their strategies, from `kiln bench ladder --list`."""
    parts, text = {}, subprocess.run([kiln, "bench", "ladder", "--list"], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        if line.startswith(" "):
            parts[part].append(re.split(r"  +", line.strip()))
        else:
            part = line.split(":")[0]
            parts[part] = []
    return parts


def check(kiln):
    parts, seen, failed = listed(kiln), {}, []
    for part, (heading, *rows) in tables(PAGE.read_text()):
        seen[part] = [[values[0], values[1].strip("`")] for values in rows]
        failed += [f"{part}: unknown column {name}" for name in heading if name not in COLUMNS]
        if seen[part] != parts.get(part):
            failed.append(f"{part}: expected the rungs {parts.get(part)}, got {seen[part]}")
    failed += [f"{part}: expected a table, got none" for part in parts if part not in seen]
    for message in failed:
        print(f"docs/ladder.md: error: {message}")
    print(f"{len(seen)} tables: {'failed' if failed else 'passed'}")
    return 1 if failed else 0


def update(measured):
    with open(measured, encoding="utf-8") as file:
        parts = {part["part"]: part["rungs"] for part in json.load(file)["parts"]}
    PAGE.write_text(updated(PAGE.read_text(), parts))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "update"):
        sys.exit(__doc__)
    sys.exit({"check": check, "update": update}[sys.argv[1]](sys.argv[2]))
