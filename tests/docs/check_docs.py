"""Checks the references in pages of the source tree: relative links lead to files, their #fragments lead to headings,
and paths in backticks exist.

    python3 tests/docs/check_docs.py
"""
import pathlib
import re
import sys
import unicodedata

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
# A page that shows how to create files lists them: <!-- example files: silu.kiln -->
EXAMPLES = re.compile(r"<!-- example files: (.*?) -->")
# Text that looks like a path of the source tree: a top-level folder, then names.
TREE_PATH = re.compile(r"^(?:api|examples|include|compiler|runtime|templates|graphs|tests|tools|docs|cmake)/[\w.*<>/-]*$")


def pages():
    return [*SOURCE_TREE.glob("*.md"), *SOURCE_TREE.glob("docs/**/*.md"), *SOURCE_TREE.glob("graphs/**/*.md")]


def fragments(text):
    """The ids of headings, as GitHub makes them."""
    for heading in HEADING.findall(FENCE.sub("", text)):
        kept = "".join(c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LN")
        yield kept.replace(" ", "-")


def link_error(page, target):
    if re.match(r"[a-z]+:", target):
        return None
    path, _, fragment = target.partition("#")
    file = (page.parent / path) if path else page
    if not file.exists():
        return f"link to {target}: there is no {path}"
    if fragment and fragment not in fragments(file.read_text()):
        return f"link to {target}: {path or 'this page'} has no such heading"
    return None


def path_error(path, examples):
    if not TREE_PATH.match(path) or any(path.rstrip("/").endswith(example) for example in examples):
        return None
    # NAME, <pass> and * match any name.
    pattern = re.sub(r"<[^>]*>|\b[A-Z]{2,}\b", "*", path.rstrip("/"))
    return None if any(SOURCE_TREE.glob(pattern)) else f"`{path}` does not exist"


def errors(page):
    text = FENCE.sub(lambda match: "\n" * match.group().count("\n"), page.read_text())
    examples = [name for names in EXAMPLES.findall(text) for name in names.split(", ")]
    for number, line in enumerate(text.splitlines(), 1):
        found = [link_error(page, target) for target in LINK.findall(CODE.sub("", line))]
        found += [path_error(code, examples) for code in CODE.findall(line)]
        for error in filter(None, found):
            yield f"{page.relative_to(SOURCE_TREE)}:{number}: error: {error}"


def main():
    everything = pages()
    found = [error for page in everything for error in errors(page)]
    for error in found:
        print(error)
    print(f"{len(everything)} pages: {'failed' if found else 'passed'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
