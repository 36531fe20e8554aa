"""The installed pages and completions, and the Debian package."""
import os
import re
import shutil
import subprocess
import unittest

import installation
from installation import BUILD, execute, installed
from kilntest import KILN, KilnTest, run_kiln


def setUpModule():
    installation.install()


def needs(program):
    return unittest.skipIf(shutil.which(program) is None, f"no {program}")


def commands_of(prefix=()):
    """Each command with its --help, and the program itself."""
    text = run_kiln(*prefix, "--help").out.decode()
    yield prefix, text
    for name in re.findall(r"^  ([a-z]+) ", text.partition("\nSubcommands:\n")[2], re.MULTILINE):
        yield from commands_of((*prefix, name))


def options_of(text):
    for names in re.findall(r"^  (-\S*)", text, re.MULTILINE):
        yield from names.split(",")


class PagesTest(KilnTest):
    def complete_in_bash(self, *words):
        script = f'''source {installed("completions/kiln")}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kiln
                     printf '%s\\n' "${{COMPREPLY[@]}}"'''
        return set(execute(["bash", "-c", script, "bash", "kiln", *words], cwd=self.folder).split())

    def test_every_command_has_a_page_with_its_options(self):
        for command, text in commands_of():
            with open(installed("-".join(["kiln", *command]) + ".1"), encoding="utf-8") as file:
                page = file.read().replace("\\-", "-")
            for option in options_of(text):
                self.assertIn(f"\\fB{option}\\fR", page, command)
        self.assertTrue(os.path.exists(installed("kiln-opt.1")))

    @needs("groff")
    def test_pages_have_no_mistakes(self):
        pages = [os.path.join(installation.prefix, path) for path in installation.files() if "/man1/" in path]
        self.assertGreater(len(pages), 10)
        result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", *pages], capture_output=True, check=True)
        self.assertEqual(result.stderr, b"")

    def test_bash_completes_every_option(self):
        for command, text in commands_of():
            self.assertEqual(self.complete_in_bash(*command, "-"), set(options_of(text)), command)

    def test_bash_completes_commands_and_values(self):
        self.write("overview.txt", "")
        self.assertEqual(self.complete_in_bash("co"), {"compare", "compile"})
        self.assertEqual(self.complete_in_bash("bench", "la"), {"ladder"})
        self.assertEqual(self.complete_in_bash("run", "--overflow", ""), {"error", "stop", "slide"})
        self.assertEqual(self.complete_in_bash("run", "--device", "e"), {"emulate"})
        self.assertEqual(self.complete_in_bash("compile", "x.toml", "--target", "sm_9"), {"sm_90a"})
        self.assertEqual(self.complete_in_bash("bench", "ladder", "--parts", "layernorm-s"), {"layernorm-small"})
        self.assertEqual(self.complete_in_bash("run", "--seed", ""), set())
        self.assertEqual(self.complete_in_bash("run", "over"), {"overview.txt"})
        self.assertEqual(self.complete_in_bash("run", "--weights", "over"), {"overview.txt"})
        self.assertEqual(self.complete_in_bash("over"), set())

    @needs("zsh")
    def test_zsh_chooses_the_arguments_of_the_command(self):
        # Its functions that would complete are replaced by ones that print what they are given.
        script = '''_arguments() { print -rl -- "$@" }; _describe() { print -rl -- "${(@P)2}" }
                    words=("$@"); CURRENT=$#; source ''' + installed("_kiln")
        for command, text in commands_of():
            given = execute(["zsh", "-f", "-c", script, "zsh", "kiln", *command, ""])
            for option in options_of(text):
                self.assertRegex(given, rf"(?m)^\*?{re.escape(option)}\[", command)
        given = execute(["zsh", "-f", "-c", script, "zsh", "kiln", ""])
        self.assertIn("compile:Compile a model into a kernel plan\n", given)
        self.assertIn(":(error stop slide)\n", execute(["zsh", "-f", "-c", script, "zsh", "kiln", "run", ""]))

    @needs("fish")
    def test_fish_completes(self):
        def complete(line):
            command = ["fish", "--no-config", "-c", f"source {installed('kiln.fish')}; complete -C '{line}'"]
            lines = execute(command, env={**os.environ, "HOME": self.folder}).splitlines()
            return {line.split("\t")[0] for line in lines}

        self.assertEqual(complete("kiln co"), {"compare", "compile"})
        self.assertEqual(complete("kiln run --overflow "), {"error", "stop", "slide"})
        self.assertEqual(complete("kiln bench ladder --par"), {"--parts"})
        self.assertEqual(complete("kiln run --par"), set())

    @needs("dpkg-deb")
    def test_the_debian_package_has_what_is_installed(self):
        execute(["cpack", "-G", "DEB", "-B", self.path("package")], cwd=BUILD)
        package, = [name for name in os.listdir(self.path("package")) if name.endswith(".deb")]
        execute(["dpkg-deb", "-x", self.path("package", package), self.path("root")])
        found = {os.path.relpath(os.path.join(folder, name), self.path("root", "usr"))
                 for folder, _, names in os.walk(self.path("root")) for name in names}
        self.assertEqual(found, installation.files())
        # The programs are inside, not links to the build.
        version = execute([self.path("root", "usr", "bin", "kiln"), "--version"])
        self.assertEqual(version, execute([KILN, "--version"]))
        self.assertIn("libstdc++6", execute(["dpkg-deb", "-f", self.path("package", package), "Depends"])
                      if shutil.which("dpkg-shlibdeps") else "libstdc++6")


if __name__ == "__main__":
    unittest.main()
