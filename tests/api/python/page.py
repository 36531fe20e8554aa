"""Runs the Python blocks of a page like docs/python.md one after the other, as a notebook does, and checks that each
prints the block of text that follows it, if one does.

    python3 tests/api/python/page.py docs/python.md            checks
    python3 tests/api/python/page.py docs/python.md --write    puts into the page what the code prints

Needs the package kiln.
"""
import contextlib
import difflib
import io
import pathlib
import re
import sys

# A block of code, and the block of text behind it.
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<text>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def printed_by(page):
    """The page with what its code prints."""
    names = {"__name__": "__main__"}

    def run(match):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            line = page.count("\n", 0, match.start("code"))
            exec(compile("\n" * line + match["code"], "page", "exec"), names)
        if match["text"] is None:
            assert not output.getvalue(), f"line {line}: this prints, but no text follows: {output.getvalue()}"
            return match[0]
        text = "".join(line.rstrip() + "\n" for line in output.getvalue().splitlines())
        return f"```python\n{match['code']}```\n\n```text\n{text}```\n"

    return BLOCK.sub(run, page)


def main():
    path = pathlib.Path(sys.argv[1])
    page = path.read_text(encoding="utf-8")
    made = printed_by(page)
    if sys.argv[2:] == ["--write"]:
        path.write_text(made, encoding="utf-8")
        return 0
    changes = list(difflib.unified_diff(page.splitlines(True), made.splitlines(True), str(path), "what the code prints"))
    sys.stdout.writelines(changes)
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
