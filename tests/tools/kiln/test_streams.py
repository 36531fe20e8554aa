"""Streams that are closed, full or a terminal, and a system that refuses threads or memory: the program gives a result,
or one message."""

import os
import pty
import resource
import subprocess
import unittest

import syscalls
from kilntest import CONFIG, KILN, ONE_KERNEL, SHAKESPEARE, TINY_MODEL, KilnTest, run_kiln, write_model

RUN = ["run", SHAKESPEARE, "--device", "cpu", "--tokens", "1,2,3", "--max-new-tokens", "2", "--greedy"]


class Closed(KilnTest):
    def test_messages_that_cannot_be_written(self):
        """The work is still done."""
        expected = self.kiln(*RUN).out
        read, write = os.pipe()
        os.close(read)
        with open("/dev/full", "wb") as full:
            for what, prepare in (("closed", lambda: os.close(2)), ("full", lambda: os.dup2(full.fileno(), 2)),
                                  ("nobody reads", lambda: os.dup2(write, 2))):
                with self.subTest(what=what):
                    self.assertEqual(self.kiln(*RUN, preexec_fn=prepare, pass_fds=(write,)).out, expected)
                    self.assertEqual(run_kiln("run", preexec_fn=prepare, pass_fds=(write,)).code, 2)
                    self.assertEqual(run_kiln("dump", "none", preexec_fn=prepare, pass_fds=(write,)).code, 1)
        os.close(write)

    def test_files_do_not_take_the_place_of_closed_streams(self):
        """Otherwise the first file that the program opens would become number 2, and receive its messages."""
        model = self.write("m.toml", TINY_MODEL)
        plain, closed = self.path("plain"), self.path("closed")
        self.kiln("compile", model, "--stage", "cuda", "-o", plain)
        process = subprocess.run([KILN, "compile", model, "--stage", "cuda", "-o", closed], preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual(process.returncode, 0)
        self.assertEqual(subprocess.run(["diff", "-r", plain, closed], capture_output=True).stdout, b"")
        process = subprocess.run([KILN, "compile", model, "--stage", "graph"], preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual(process.returncode, 1, "the result is lost")

    def test_standard_input(self):
        result = run_kiln("tokenize", SHAKESPEARE, "--file", "-", preexec_fn=lambda: os.close(0))
        self.assertEqual((result.code, result.err), (1, "standard input: error: cannot read: Bad file descriptor\n"))

    def test_results_that_nobody_reads(self):
        """SIGPIPE ends the program, as it ends others in a pipe."""
        read, write = os.pipe()
        os.close(read)
        process = subprocess.run([KILN, *RUN], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        self.assertEqual((process.returncode, process.stderr), (-13, b""))


class Terminal(KilnTest):
    """A terminal obeys control characters, so those from files and from the model are printed as escapes."""

    def shown(self, *command):
        """The program's output to a terminal, on both streams."""
        ours, its = pty.openpty()
        process = subprocess.Popen([KILN, *command], stdin=its, stdout=its, stderr=its)
        os.close(its)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # Linux reports this when the last other end is closed
            pass
        os.close(ours)
        process.wait()
        return text.decode().replace("\r\n", "\n")

    def test_generated_text(self):
        prompt = "a\x1b[2J\ta\x7f\u009bä\nx"
        command = ["run", SHAKESPEARE, "--device", "cpu", "--prompt", prompt, "--max-new-tokens", "0", "--quiet"]
        self.assertEqual(self.kiln(*command).out.decode(), prompt + "\n")
        self.assertEqual(self.shown(*command), "a\\x1b[2J\ta\\x7f\\u009bä\nx\n")

    def test_files(self):
        model = self.write("m\x1b[2J.toml", 'vocab_size = "\x1b[2J\\u001b" \x1b\n')
        name = self.folder + "/m\\x1b[2J.toml"
        self.assertTrue(self.shown("compile", model).startswith(f"{name}:1:15: error: not valid TOML: "))
        self.assertNotIn("\x1b", self.shown("compile", model))
        self.write("m\x1b[2J.toml", 'vocab_size = "\\u001b[2J"\n' + TINY_MODEL.split("\n", 1)[1])
        self.assertIn('expected an integer from 1 to 16777216, got "\\x1b[2J"', self.shown("compile", model))
        folder = write_model(self.path("model"), {**CONFIG, "\x1b[2J": 1})
        self.assertNotIn("\x1b", self.shown("compile", folder))
        plan = self.path("m\x1b[2J.plan")
        self.write("m\x1b[2J.toml", TINY_MODEL)
        shown = self.shown("compile", model, "--stage", "cuda", "-o", plan)
        self.assertIn("kernels in " + self.folder + "/m\\x1b[2J.plan\n", shown)
        kernel = next(name for name in os.listdir(os.path.join(plan, "kernels")))
        with open(os.path.join(plan, "kernels", kernel), "a") as file:
            file.write("// \x1b[2J\n")
        self.assertTrue(self.shown("dump", plan, "--what", "cuda", "--kernel", kernel[:-3]).endswith("// \\x1b[2J\n"))
        self.assertTrue(self.kiln("dump", plan, "--what", "cuda", "--kernel", kernel[:-3]).out.endswith(b"// \x1b[2J\n"))
        self.assertNotIn("\x1b", self.shown("dump", plan, "--kernel", "\x1b[2J"))
        self.assertNotIn("\x1b", self.shown("\x1b[2J"))


class Limits(KilnTest):
    @unittest.skipUnless(syscalls.are_available(), "the system has no filters of calls")
    def test_no_threads(self):
        """Simulates the limit of ulimit -u, which does not apply to root."""
        # AddressSanitizer's leak check needs a thread.
        refuse = {"preexec_fn": lambda: syscalls.refuse("clone", "clone3"), "env": {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}}
        self.assertEqual(self.kiln(*RUN, **refuse).out, self.kiln(*RUN).out)
        module = self.write("m.kiln", ONE_KERNEL.format("tanh"))
        self.assertEqual(self.kiln("compile", module, "--no-cache", "--quiet", "-o", self.path("m.plan"), **refuse).err, "")
        model = self.write("m.toml", TINY_MODEL)
        result = run_kiln("run", model, "--device", "emulate", "--random-weights", 1, "--tokens", 1, "--max-new-tokens", 1, **refuse)
        self.assertEqual(result.code, 1)
        self.assertRegex(result.err, r"\A[^\n]*error: expected a C\+\+ compiler, but --version fails: [^\n]*\n\Z")

    def test_little_memory(self):
        """Whatever is refused, there is a result or a message, never a silent end."""
        model, module = self.write("m.toml", TINY_MODEL), self.write("m.kiln", ONE_KERNEL.format("tanh"))
        failed = 0
        for command in (RUN, ["compile", model, "--stage", "cuda", "--quiet", "-o", self.path("plan")],
                        ["compile", module, "--no-cache", "--quiet", "-o", self.path("plan")]):
            for megabytes in (24, 32, 40, 48, 64, 100, 130, 160, 200):
                result = run_kiln(*command, preexec_fn=lambda: limit_memory(megabytes))
                if result.code == 127 or "AddressSanitizer" in result.err:
                    continue  # the program could not even start
                with self.subTest(command=command, megabytes=megabytes):
                    self.assertIn(result.code, (0, 1), result.err)
                    self.assertEqual("error: " in result.err, result.code == 1, result.err)
                    failed += result.code
        if "AddressSanitizer" not in run_kiln(*RUN, preexec_fn=lambda: limit_memory(24)).err:
            self.assertGreater(failed, 0, "no limit was too small")


def limit_memory(megabytes):
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


if __name__ == "__main__":
    unittest.main()
