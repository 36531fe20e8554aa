"""The installed library: what C programs get from it, and its binary interface. KILN_CC is the C compiler with its
flags."""
import difflib
import json
import os
import shlex
import struct
import unittest

import abi
import installation
from installation import execute, installed
from kilntest import CONFIG, SHAKESPEARE, SOURCE, TINY_MODEL, KilnTest, ids, snapshot, write_model

HERE = os.path.dirname(os.path.abspath(__file__))
CC = shlex.split(os.environ["KILN_CC"])
EXAMPLE = os.path.join(SOURCE, "examples", "c", "generate.c")


def setUpModule():
    installation.install()


class LibraryTest(KilnTest):
    def build(self, source, *options):
        """Compiles a C program with warnings as errors, and links it with the installed library as pkg-config says."""
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(installed("kiln.pc"))}
        flags = execute(["pkg-config", "--cflags", "--libs", "kiln"], env=environment).split()
        program = self.path(os.path.splitext(os.path.basename(source))[0])
        execute([*CC, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", source, *flags, *options,
                 f"-Wl,-rpath,{os.path.dirname(installed('libkiln.so'))}", "-o", program])
        return program

    def results(self, model, *, prompts, device="cpu", weights="own", greedy=True, seed=0, new_tokens=8):
        program = self.build(os.path.join(HERE, "results.c"))
        lines = execute([program, model, device, weights, int(greedy), seed, new_tokens, *map(ids, prompts)])
        return list(map(json.loads, lines.splitlines()))

    def assert_equals_run(self, model, prompts, *options, new_tokens=8, device="cpu", **given):
        *got, steps = self.results(model, prompts=prompts, new_tokens=new_tokens, device=device, **given)
        tokens = [argument for prompt in prompts for argument in ("--tokens", ids(prompt))]
        expected = self.run_json(model, "--logits", "--max-new-tokens", new_tokens, *options, *tokens, device=device)
        for own, run in zip(got, expected, strict=True):
            self.assertEqual(own["tokens"], run["tokens"])
            self.assertEqual(own["finish_reason"], run["finish_reason"])
            self.assertEqual(bytes(own["text"]).decode(), run["text"])
            self.assertEqual([list(map(float32, row)) for row in own["logits"]],
                             [list(map(float32, row)) for row in run["logits"]])
        return got, steps

    def test_results_are_those_of_kiln_run(self):
        prompts = [[5, 300, 7], [1]]
        got, steps = self.assert_equals_run(SHAKESPEARE, prompts, "--greedy")
        # Step by step, too; and the log-probabilities of generate, of prefill and decode, and of score agree.
        self.assertEqual(steps["tokens"], got[-1]["tokens"])
        self.assertEqual(steps["log_probabilities"], got[-1]["log_probabilities"])
        for one, other in zip(steps["scores"][-8:], steps["log_probabilities"], strict=True):
            self.assertAlmostEqual(one, other, delta=1e-4)
        self.assertEqual(len(steps["scores"]), 8)
        # The defaults of sampling are those of `kiln run`.
        self.assert_equals_run(SHAKESPEARE, prompts, "--seed", "3", greedy=False, seed=3)

    def test_results_of_a_plan_and_of_kernels(self):
        model = self.write("tiny.toml", TINY_MODEL)
        self.kiln("compile", model, "-o", self.path("plan"), "--stage", "cuda", "--quiet")
        prompts = [[5, 30, 7], [1]]
        for device in ("cpu", "emulate"):
            got, steps = self.assert_equals_run(self.path("plan"), prompts, "--greedy", "--random-weights", "2",
                                                device=device, weights=2, new_tokens=4)
            self.assertEqual(steps["tokens"], got[-1]["tokens"])

    def test_plans_are_those_of_kiln_compile(self):
        model = write_model(self.path("model"), CONFIG)
        program = self.build(self.write("compile.c", COMPILE), "-I", HERE)
        self.kiln("compile", model, "-o", self.path("expected"), "--stage", "cuda", "--quiet")
        execute([program, model, self.path("got")])
        self.assertEqual(snapshot(self.path("got")), snapshot(self.path("expected")))

    def test_misuse_is_an_error(self):
        execute([self.build(os.path.join(HERE, "misuse.c")), SHAKESPEARE, self.path("plan")])
        self.assertFalse(os.path.exists(self.path("plan")))

    def test_threads_and_cancelling(self):
        execute([self.build(os.path.join(HERE, "threads.c"), "-pthread"), SHAKESPEARE])

    def test_the_example_prints_what_kiln_run_prints(self):
        expected = self.kiln("run", SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", "40", "--quiet")
        self.assertEqual(execute([self.build(installed("generate.c")), SHAKESPEARE, "ROMEO:"]), expected.out.decode())

    def test_a_cmake_project_finds_the_package(self):
        execute(["cmake", "-S", os.path.join(HERE, "consumer"), "-B", self.path("build"), f"-DCMAKE_PREFIX_PATH={installation.prefix}",
                 f"-DEXAMPLE={EXAMPLE}", f"-DCMAKE_C_COMPILER={CC[0]}", f"-DCMAKE_C_FLAGS={' '.join(CC[1:])}"])
        execute(["cmake", "--build", self.path("build")])
        self.assertIn("ROMEO:", execute([self.path("build", "generate"), SHAKESPEARE, "ROMEO:"]))

    def test_the_header_is_cpp_too(self):
        source = self.write("cpp.cpp", "#include <kiln.h>\nint main() { KilnModelOptions options = KILN_MODEL_OPTIONS;"
                                       " return options.size == 0; }\n")
        execute([*CC, "-x", "c++", "-std=c++11", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", "-I",
                 os.path.dirname(installed("kiln.h")), source])

    def test_the_binary_interface_is_the_recorded_one(self):
        with open(os.path.join(HERE, "abi.txt"), encoding="utf-8") as file:
            recorded = file.read()
        got = abi.describe(CC[0], os.path.dirname(installed("kiln.h")))
        changes = "".join(difflib.unified_diff(recorded.splitlines(True), got.splitlines(True), "abi.txt", "kiln.h"))
        self.assertEqual(changes, "", "see tests/api/abi.py")

    def test_one_symbol_is_exported(self):
        symbols = execute(["nm", "-D", "--defined-only", installed("libkiln.so.1")])
        functions = [line.split()[-1].split("@")[0] for line in symbols.splitlines() if line.split()[-2] != "A"]
        self.assertEqual(functions, ["kilnGetApi"])


# The program's own handler of a signal stays in force.
COMPILE = """#include "support.h"
#include <signal.h>
static volatile sig_atomic_t signals;
static void onSignal(int number) { signals += number == SIGINT; }
int main(int argc, char **argv) {
  KilnCompileOptions options = KILN_COMPILE_OPTIONS;
  openApi();
  EXPECT(argc == 3);
  signal(SIGINT, onSignal);
  options.withoutCubins = 1;
  CHECK(kiln->compile(argv[1], argv[2], &options));
  raise(SIGINT);
  EXPECT(signals == 1);
  return 0;
}
"""


def float32(number):
    return struct.pack("<f", number)


if __name__ == "__main__":
    unittest.main()
