"""Checks docs/command-line.md against the programs: the options listed for each command are those of its --help, and
the commands on the page print the output shown there. In an output, `…` matches anything, and so do numbers in tables,
which depend on NVRTC and on the kernels' templates. Commands in ```console blocks need a GPU: only their options are
checked.

    python3 tests/docs/check_command_line.py path/to/kiln
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE_TREE = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE_TREE / "docs/command-line.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*|-[a-z](?![\w-]))")
TIMEOUT = 600  # seconds, so that a hang is a failure


def sections(text):
    """The text below each heading, by heading."""
    parts = re.split(r"^##+ (.*)$", FENCE.sub("", text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed_options(section):
    """The options in the first column of the section's tables."""
    cells = re.findall(r"^\| (`.*?) \|", section.replace("\\|", ""), re.MULTILINE)
    return {option for cell in cells for code in re.findall(r"`([^`]*)`", cell) for option in OPTION.findall(code.split()[0])}


def run(command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT, **options)


def help_of(program):
    result = run([*program, "--help"])
    if result.returncode != 0:
        raise RuntimeError(f"{shlex.join(map(str, program))} --help failed: {result.stderr}")
    return result.stdout


def own_options(program):
    """The options of --help, which stand at the start of lines, except --help itself."""
    lines = re.findall(r"^  (-\S*)", help_of(program), re.MULTILINE)
    return {option for line in lines for option in line.split(",") if option not in ("-h", "--help")}


def commands_of(kiln, prefix=()):
    """The commands that --help lists, and their subcommands."""
    _, _, text = help_of([kiln, *prefix]).partition("\nSubcommands:\n")
    for name in re.findall(r"^  ([a-z]+) ", text, re.MULTILINE):
        yield (*prefix, name)
        yield from commands_of(kiln, (*prefix, name))


def option_errors(text, programs):
    found = sections(text)
    for heading, program in programs.items():
        if heading not in found:
            yield f"expected a heading '{heading}'"
            continue
        listed, own = listed_options(found[heading]), own_options(program)
        if listed != own:
            yield (f"{heading}: the page and --help differ: only on the page {sorted(listed - own)}, only in --help "
                   f"{sorted(own - listed)}")


def shown_commands(text):
    """(language, command line, expected output) for every line that begins with a prompt."""
    for language, block in FENCE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            yield language, line, output


def pattern(line):
    """The regular expression for a line of expected output."""
    expected = ".*".join(re.escape(part) for part in line.split("…"))
    return re.sub(r"\d+", r"\\d+", expected) if line.startswith("| ") else expected


def shown_errors(text, kiln, programs, folder):
    environment = {**os.environ, "PATH": f"{kiln.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    for language, line, output in shown_commands(text):
        if language == "console":
            words = shlex.split(line)
            heading = max((name for name in programs if " ".join(words[1:]).startswith(name)), key=len)
            unknown = set(OPTION.findall(line)) - own_options(programs[heading])
            if unknown:
                yield f"{line}: unknown options {sorted(unknown)}"
            continue
        result = run(["bash", "-c", line], cwd=folder, env=environment)
        if result.returncode != 0:
            yield f"{line}: exit code {result.returncode}: {result.stderr}"
        if output and not re.fullmatch("\n".join(map(pattern, output.split("\n"))), result.stdout):
            yield f"{line}: expected\n{output}got\n{result.stdout}"


def main():
    kiln = pathlib.Path(sys.argv[1]).resolve()
    text = PAGE.read_text()
    programs = {" ".join(command): [kiln, *command] for command in commands_of(kiln)}
    programs["kiln-opt"] = [kiln.with_name("kiln-opt")]
    found = list(option_errors(text, programs))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("graphs", "tests"):
            os.symlink(SOURCE_TREE / name, os.path.join(folder, name))
        found += shown_errors(text, kiln, programs, folder)
    for error in found:
        print(f"{PAGE.relative_to(SOURCE_TREE)}: error: {error}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
