"""Checks that docs/layer.svg, which README.md shows, is what `kiln report --picture` writes now.

    python3 tests/docs/check_picture.py path/to/kiln [--fix]

With --fix, writes it.
"""
import pathlib
import subprocess
import sys
import tempfile
import xml.dom.minidom

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
PICTURE = SOURCE_TREE / "docs/layer.svg"


def make(kiln):
    """The picture of the embedded model's plan. Its path does not show."""
    with tempfile.TemporaryDirectory() as folder:
        plan, picture = pathlib.Path(folder, "plan"), pathlib.Path(folder, "layer.svg")
        for command in (["compile", "graphs/shakespeare-5m", "--stage", "cuda", "--quiet", "-o", plan],
                        ["report", plan, "--picture", picture]):
            subprocess.run([kiln, *command], cwd=SOURCE_TREE, check=True, timeout=600)
        return picture.read_text(encoding="utf-8")


def main():
    picture = make(pathlib.Path(sys.argv[1]).resolve())
    xml.dom.minidom.parseString(picture)
    if "--fix" in sys.argv:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"{PICTURE.relative_to(SOURCE_TREE)}: expected what `kiln report --picture` writes; "
                 "make it again: python3 tests/docs/check_picture.py path/to/kiln --fix")


if __name__ == "__main__":
    main()
