"""kiln tune writes a database that the compiler accepts, and continues an interrupted run; also within calls."""

import json
import os
import re
import signal
import subprocess
import unittest

from htmlpage import Page
from kilntest import KILN, TINY_MODEL, KilnTest, run_kiln

DEVICE = os.environ.get("KILN_DEVICE", "emulate")


class Tune(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("tiny.toml", TINY_MODEL)
        self.database = self.path("measured.toml")

    def command(self, *more, trials=3):
        return ("tune", self.model, "--device", DEVICE, "--what", "decode", "--batch", 1, "--length", 8, "--samples", 1,
                "--trials", trials, "-o", self.database, *more)

    def test_database_is_what_the_compiler_takes(self):
        page = self.path("page.html")
        result = self.kiln(*self.command("--report", page))
        self.assertEqual(sorted(os.listdir(self.folder)), ["measured.toml", "page.html", "tiny.toml"])
        with open(self.database) as file:
            text = file.read()
        with open(page, "rb") as file:
            html = Page(file.read()).root.text()
        problems = re.findall(r'^problem = "(.*)"$', text, re.MULTILINE)
        self.assertEqual(len(problems), 7)
        for problem in problems:
            self.assertIn(f"| {problem} | 1 |", result.out.decode())
            self.assertIn(problem + ", rows 1: ", html)
        # The plan follows the database, even if the model would choose otherwise.
        changed = re.sub(r"(?m)^kernel = \"gemv_\w+\"\ntile = .*$",
                         'kernel = "gemm_simt"\ntile = {thread_cols = 4, thread_rows = 4, tile_cols = 32, tile_depth = 32, '
                         "tile_rows = 32}", text)
        self.assertNotEqual(changed, text)
        own = self.write("own.toml", changed)
        compiled = self.kiln("compile", self.model, "--max-batch", 1, "--stage", "plan", "--tuning", own).out.decode()
        decode = compiled[compiled.index("func @decode") :]
        self.assertIn("kernel = gemm_simt", decode)
        self.assertNotIn("kernel = gemv", decode)
        self.assertIn("gemv", self.kiln("compile", self.model, "--stage", "plan", "--tuning", "none").out.decode())

    def test_an_interrupted_run_goes_on(self):
        command = [KILN, *map(str, self.command())]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            lines = [process.stderr.readline() for _ in range(3)]
            process.send_signal(signal.SIGINT)
            process.stderr.read()
        self.assertRegex(lines[2].decode(), r"^\[3/\d+\] ")
        self.assertFalse(os.path.exists(self.database))
        self.assertTrue(os.path.exists(self.database + ".partial"))
        result = run_kiln(*self.command())
        self.assertEqual(result.code, 0, result.err)
        first = re.match(r"\[(\d+)/(\d+)\]", result.err)
        self.assertGreater(int(first.group(1)), 3)
        self.assertEqual(sorted(os.listdir(self.folder)), ["measured.toml", "tiny.toml"])

    def test_results_of_other_kernels_are_not_taken(self):
        """An interrupted run does not go on after a change of the templates or of the compiler."""
        for key in ("compiler", "templates"):
            command = [KILN, *map(str, self.command())]
            with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
                for _ in range(3):
                    process.stderr.readline()
                process.kill()
                process.stderr.read()
            with open(self.database + ".partial") as file:
                heading, trials = file.read().split("\n", 1)
            self.assertGreaterEqual(trials.count("\n"), 2)
            changed = {**json.loads(heading), key: "other"}
            self.write("measured.toml.partial", json.dumps(changed, separators=(",", ":"), sort_keys=True) + "\n" + trials)
            with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
                self.assertRegex(process.stderr.readline().decode(), r"^\[1/")
                process.kill()
                process.stderr.read()
            os.remove(self.database + ".partial")

    def test_trials_in_calls(self):
        result = self.kiln(*self.command("--in-calls"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["measured.toml", "tiny.toml"])
        with open(self.database) as file:
            text = file.read()
        self.assertEqual(text.count("[[choice]]"), 7)
        self.assertEqual(re.findall('^call = .*$', text, re.MULTILINE), ['call = "decode B=1 position=4"'] * 7)
        # Times are those of the call, for each entry.
        calls = re.findall(r"^\| decode B=1 position=4 \| (\S+) \| (\S+) \|", result.out.decode(), re.MULTILINE)
        self.assertEqual(len(calls), 1)
        self.assertEqual(set(re.findall(r"^us = (\S+)\nmodel_us = (\S+)$", text, re.MULTILINE)), {calls[0][::-1]})
        self.kiln("compile", self.model, "--max-batch", 1, "--stage", "plan", "--tuning", self.database)

    def test_what_is_chosen_in_calls_outlives_an_interruption(self):
        partial = self.database + ".partial"
        # The model's choices are timed first, all 7 at once, and nothing has changed then.
        self.interrupt_in_calls(lambda line: line.startswith("[7/"))
        self.assertFalse(os.path.exists(self.database))
        self.assertFalse(os.path.exists(partial))
        self.interrupt_in_calls(lambda line: os.path.exists(partial))
        if not os.path.exists(partial):
            self.assertTrue(os.path.exists(self.database), "the model's choices were the fastest")
            return
        self.assertFalse(os.path.exists(self.database))
        with open(partial) as file:
            self.assertEqual(file.read().count('\ncall = "decode B=1 position=4"\n'), 7)
        self.kiln("compile", self.model, "--max-batch", 1, "--stage", "plan", "--tuning", partial)

    def interrupt_in_calls(self, is_enough):
        """Interrupts a run after the first line of progress that is_enough accepts, if there is one."""
        command = [KILN, *map(str, self.command("--in-calls"))]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            for line in process.stderr:
                if is_enough(line.decode()):
                    process.send_signal(signal.SIGINT)
                    break
            process.stderr.read()

    def test_only_some_problems(self):
        self.kiln(*self.command("--only", "matmul"))
        with open(self.database) as file:
            problems = re.findall(r'^problem = "(.*?)\(', file.read(), re.MULTILINE)
        self.assertGreater(len(problems), 1)
        for problem in problems:
            self.assertIn("matmul", problem)
        # MODEL may follow, and an empty part is none.
        self.kiln("tune", "--only", "matmul,attention", *self.command()[1:])
        self.assert_fails("error: --only: expected a value, got ''", *self.command("--only", "matmul,"), code=2)
        self.assert_fails("kiln tune: --only: expected a part of a problem's name, such as ",
                          *self.command("--only", "matmul,softmix"))
        self.assert_fails(", got softmix", *self.command("--only", "matmul,softmix"))

    def test_trials_start_from_a_database(self):
        """What it has is the first trial of its problem, and stays where none is tried."""
        self.kiln(*self.command())
        with open(self.database) as file:
            text = file.read()
        simple = 'kernel = "gemm_simt"\ntile = {thread_cols = 4, thread_rows = 4, tile_cols = 32, tile_depth = 32, tile_rows = 32}'
        changed = re.sub(r"(?m)^kernel = \"gemv_\w+\"\ntile = .*$", simple, text)
        self.assertNotEqual(changed, text)
        start = self.write("start.toml", changed)
        for more in ((), ("--only", "attention")):
            result = self.kiln(*self.command("--tuning", start, *more, trials=1))
            with open(self.database) as file:
                self.assertEqual(re.findall("(?m)^(?:problem|kernel|tile) = .*$", file.read()),
                                 re.findall("(?m)^(?:problem|kernel|tile) = .*$", changed), result.err)
        self.kiln(*self.command(trials=1))
        with open(self.database) as file:
            self.assertNotIn("gemm_simt", file.read())
        self.assert_fails("start.toml: error: expected measurements for sm_80, got sm_90a",
                          *self.command("--tuning", start, "--target", "sm_80"))

    def test_other_orders_of_sums_are_tried_on_request(self):
        model = self.write("wide.toml", TINY_MODEL.replace("_embd = 16", "_embd = 128").replace("_head = 1", "_head = 2")
                           .replace("_inner = 64", "_inner = 2048").replace("_positions = 16", "_positions = 64"))
        command = [KILN, "tune", model, "--device", DEVICE, "--dtype", "bf16", "--what", "prefill", "--batch", "1",
                   "--length", "64", "--only", "matmul_bias_residual", "--within", "100", "-o", self.database]

        def trials(*options):
            with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
                line = process.stderr.readline().decode()
                process.kill()
            os.remove(self.database + ".partial")
            return int(re.match(r"\[1/(\d+)\]", line).group(1))

        self.assertGreater(trials("--batch-invariant", "1"), trials())

    def test_errors(self):
        self.assert_fails("kiln tune takes --device emulate or cuda:N", "tune", self.model, "--device", "cpu", code=2)
        self.assert_fails("error: cannot write", *self.command()[:-2], "-o", self.path("no", "such", "folder.toml"))
        missing = self.path("no", "such.file")
        for command in ((*self.command()[:-2], "--in-calls", "-o", missing), self.command("--report", missing)):
            self.assert_fails("error: cannot write: No such file or directory", *command)
            self.assertEqual(run_kiln(*command).err.count("\n"), 1, "nothing is measured before")
        self.assert_fails("none.toml: error: cannot read", "compile", self.model, "--tuning", self.path("none.toml"))


if __name__ == "__main__":
    unittest.main()
