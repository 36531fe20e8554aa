"""Checks that the kernel and the IR in README.md are what the compiler makes now, with the commands of
tools/quickstart.

    python3 tests/docs/check_shown_kernel.py path/to/kiln
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]


def shown(text, heading):
    """The fenced blocks below a heading of the page."""
    section = text[text.index(heading) :]
    return re.findall(r"^```\w*\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def main():
    ir, kernel = shown((SOURCE_TREE / "README.md").read_text(), "## A kernel and its IR")[:2]
    name = re.search(r"^(\w+__\w+)\($", kernel, re.MULTILINE).group(1)
    with tempfile.TemporaryDirectory() as directory:
        plan = pathlib.Path(directory, "shakespeare-5m.plan")
        command = [sys.argv[1], "compile", SOURCE_TREE / "graphs/shakespeare-5m", "--stage", "cuda", "--quiet", "-o", plan]
        subprocess.run(command, check=True)
        # The page omits locations.
        made_ir = re.sub(r"  loc\(.*?\)", "", (plan / "ir/fused.kiln").read_text())
        made_kernel = (plan / "kernels" / f"{name}.cu").read_text()
    good = True
    for what, part, whole in (("IR", ir, re.sub(r"^    ", "", made_ir, flags=re.MULTILINE)), ("kernel", kernel, made_kernel)):
        if part not in whole:
            print(f"README.md: error: expected the {what} of {name} that kiln compile makes, got\n{part}", file=sys.stderr)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
