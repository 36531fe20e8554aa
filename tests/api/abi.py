"""The binary interface of include/kiln.h, as text: every structure with the offset, size and type of its fields, every
function type, every constant. tests/api/abi.txt is the record that test_library.py compares it with.

A structure, and so the table, may only grow at its end, and KILN_API_VERSION then grows by one. After such a change:

    python3 tests/api/abi.py > tests/api/abi.txt
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
HEADER = SOURCE_TREE / "include/kiln.h"
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;")
ENUM = re.compile(r"typedef enum (\w+) \{(.*?)\} \1;")
FUNCTION = re.compile(r"typedef ([^;{}]*\(\*(\w+)\)\([^;{}]*\));")
NUMBER = re.compile(r"^#define (KILN_\w+) \(?(-?\d+)\)?$", re.MULTILINE)
NAME = re.compile(r"\(\*(\w+)\)|(\w+)$")


def declarations():
    """The header without comments, directives and line breaks."""
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.DOTALL)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r"\s+", " ", text)


def fields(body):
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        found = NAME.search(declaration)
        yield found[1] or found[2], declaration


def program(text):
    """C that prints the description."""
    lines = []

    def add(kind, *values):
        arguments = "".join(f", (long){value}" for value in values)
        lines.append(f'  printf("{kind}\\n"{arguments});')

    for name, number in NUMBER.findall(HEADER.read_text()):
        add(f"{name} = {number}")
    for name, body in ENUM.findall(text):
        add(f"enum {name}: %ld bytes", f"sizeof({name})")
        for constant in re.findall(r"(\w+) =", body):
            add(f"  {constant} = %ld", constant)
    for declaration, _ in FUNCTION.findall(text):
        add(f"function {declaration}")
    for name, body in STRUCT.findall(text):
        add(f"struct {name}: %ld bytes", f"sizeof({name})")
        for field, declaration in fields(body):
            add(f"  at %ld, %ld bytes: {declaration}", f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})")
    exported = re.search(r"KILN_EXPORT ([^;]*);", text)[1]
    add(f"exported {exported}")
    return "#include <kiln.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n  return 0;\n}\n"


def describe(compiler="cc", include=HEADER.parent):
    with tempfile.TemporaryDirectory(prefix="kiln-abi-") as folder:
        source, binary = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program(declarations()))
        subprocess.run([compiler, "-std=c99", f"-I{include}", source, "-o", binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.stdout.write(describe())
