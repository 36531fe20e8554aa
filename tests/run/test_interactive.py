"""`kiln run --interactive`: each line is continued, with all lines and answers before it as one text; Ctrl-C ends an answer,
not the program. Lines come through a pipe, and from a terminal with and without libedit."""

import ctypes.util
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from kilntest import KILN, SHAKESPEARE, TIMEOUT, KilnTest, ids, write_model

COMMAND = ["run", SHAKESPEARE, "--interactive", "--device", "cpu", "--quiet"]


class Program:
    """A program on a terminal, or with pipes."""

    def __init__(self, *arguments, terminal=None):
        command = [KILN, *map(str, arguments)]
        if terminal is None:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.input, self.output = self.process.stdin.fileno(), self.process.stdout.fileno()
        else:
            self.input, child = pty.openpty()
            self.output = self.input
            self.process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, start_new_session=True,
                                            env={**os.environ, "TERM": terminal},
                                            preexec_fn=lambda: __import__("fcntl").ioctl(child, 0x540E, 0))  # TIOCSCTTY
            os.close(child)
        self.seen = b""

    def type(self, text):
        os.write(self.input, text.encode())

    def read(self):
        """Some more output; False at its end."""
        if not select.select([self.output], [], [], TIMEOUT)[0]:
            raise AssertionError(f"no output for {TIMEOUT} s after {self.seen!r}")
        try:
            more = os.read(self.output, 4096)
        except OSError:  # of a terminal whose program has ended
            more = b""
        self.seen += more
        return bool(more)

    def until(self, text):
        """Everything up to `text`, which must come."""
        while text.encode() not in self.seen:
            if not self.read():
                raise AssertionError(f"expected {text!r}, got {self.seen!r}")
        before, self.seen = self.seen.split(text.encode(), 1)
        return before.decode("utf-8", "replace")

    def end(self):
        """The rest of the output and the exit code."""
        while self.read():
            pass
        return self.seen.decode("utf-8", "replace"), self.process.wait(TIMEOUT)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdout.close()
        else:
            os.close(self.input)


class Interactive(KilnTest):
    def start(self, *options, terminal=None):
        program = Program(*COMMAND, *options, terminal=terminal)
        self.addCleanup(program.close)
        return program


class Pipes(Interactive):
    def tokens(self, text):
        return self.kiln("tokenize", SHAKESPEARE, "--text", text, "--json").objects()[0]["tokens"]

    def answers(self, lines, *options):
        """What the conversation should be: each answer is that of a run of its own, with the text so far as tokens."""
        text, shown = [], ""
        for line in lines:
            text += self.tokens(("\n" if text and line and not shown.endswith("\n") else "") + line) if line else []
            (result,) = self.run_json(SHAKESPEARE, "--tokens", ids(text), *options)
            text += result["tokens"]
            shown = result["text"]
            yield shown if shown.endswith("\n") else shown + "\n"

    def test_lines_are_continued_as_one_text(self):
        for options in (["--greedy", "--max-new-tokens", 8], ["--temperature", 0.9, "--seed", 4, "--max-new-tokens", 13]):
            lines = ["ROMEO:", "What say you?", "", "JULIET:"]
            wanted = "".join(self.answers(lines, *options))
            for text in ("\n".join(lines), "\n".join(lines) + "\n"):
                self.assertEqual(self.kiln(*COMMAND, *options, stdin=text.encode()).out.decode(), wanted)

    def test_reset_and_help(self):
        options = ["--greedy", "--max-new-tokens", 6]
        first, second = self.answers(["ROMEO:", "JULIET:"], *options)
        result = self.kiln(*COMMAND, *options, stdin=b"ROMEO:\nJULIET:\n/reset\n/help\nROMEO:\n")
        self.assertEqual(result.out.decode(), first + second + first)
        self.assertIn("/reset  forgets the text", result.err)

    def test_a_prompt_begins_the_text(self):
        options = ["--greedy", "--max-new-tokens", 6]
        first, second = self.answers(["ROMEO:", "JULIET:"], *options)
        self.assertEqual(self.kiln(*COMMAND, *options, "--prompt", "ROMEO:", stdin=b"JULIET:\n").out.decode(), "ROMEO:" + first + second)

    def test_stop_texts_are_not_part_of_the_text(self):
        options = ["--greedy", "--max-new-tokens", 40]
        (first,) = self.answers(["ROMEO:"], *options, "--stop", " thee")
        text = self.tokens("ROMEO:") + self.tokens(first.removesuffix("\n")) + self.tokens("\nJULIET:")
        (second,) = self.run_json(SHAKESPEARE, "--tokens", ids(text), *options, "--stop", " thee")
        shown = self.kiln(*COMMAND, *options, "--stop", " thee", stdin=b"ROMEO:\nJULIET:\n").out.decode()
        self.assertNotIn(" thee", shown)
        self.assertEqual(shown, first + second["text"] + "\n")

    def test_the_context_slides(self):
        options = ["--greedy", "--ignore-eos", "--max-new-tokens", 300]
        self.assertGreater(len(self.kiln(*COMMAND, *options, stdin=b"ROMEO:\n" * 5).out), 2000)
        # Other policies refuse what does not fit, and go on.
        result = self.kiln(*COMMAND, *options, "--overflow", "error", stdin=b"ROMEO:\n" * 5 + b"/reset\nROMEO:\n")
        self.assertEqual(result.err.count("expected prompt and new tokens to fit in the context of 1024"), 2)
        self.assertIn("; or enter /reset", result.err)
        (first,) = self.answers(["ROMEO:"], *options)
        self.assertTrue(result.out.decode().endswith(first))

    def test_an_interrupt_ends_the_answer_alone(self):
        program = self.start("--greedy", "--ignore-eos", "--max-new-tokens", 100000, "--overflow", "slide")
        for _ in range(2):
            program.type("ROMEO:\n")
            program.until("I")
            program.process.send_signal(signal.SIGINT)
        program.type("/reset\n")
        program.process.stdin.close()
        self.assertEqual(program.end()[1], 0)

    def test_what_does_not_go_together(self):
        no = "expected no --interactive, whose result is one text"
        for message, *options in ((f"--json: {no}", "--json"), (f"--n: {no}", "--n", 2), (f"--input: {no}", "--input", "-"),
                                  (f"--logprobs: {no}", "--logprobs", 1),
                                  ("--interactive: expected one prompt at most", "--prompt", "a", "--prompt", "b"),
                                  ("--interactive: expected a prompt from elsewhere than standard input", "--prompt-file", "-")):
            self.assert_fails("error: " + message, *COMMAND, *options, code=2)
        self.assert_fails("error: --interactive: expected a vocabulary, to read lines, got none", "run", write_model(self.path("m")),
                          "--interactive", "--device", "cpu")


class Terminals(Interactive):
    OPTIONS = ["--greedy", "--ignore-eos", "--max-new-tokens", 100000, "--overflow", "slide"]

    def converse(self, terminal):
        program = self.start(*self.OPTIONS, terminal=terminal)
        program.until("> ")
        program.type("ROMEO:\r" if terminal == "xterm" else "ROMEO:\n")
        program.until("I")
        program.type("\x03")
        program.until("> ")  # the answer has ended, and the program has not
        return program

    def test_ctrl_c_and_ctrl_d(self):
        for terminal in ("xterm", "dumb"):
            with self.subTest(terminal=terminal):
                program = self.converse(terminal)
                program.type("dropped\x03")
                program.until("ends the program")
                program.until("> ")
                program.type("JULIET:\n")
                program.until("JULIET:")
                program.until("\r\n")
                if not program.seen:  # the echo says nothing about the answer
                    program.read()
                program.type("\x03")
                program.until("> ")
                program.type("\x04")
                self.assertEqual(program.end()[1], 0)

    def test_ctrl_c_twice_at_an_empty_line(self):
        for terminal in ("xterm", "dumb"):
            with self.subTest(terminal=terminal):
                program = self.converse(terminal)
                program.type("\x03")
                program.until("Ctrl-C once more, or Ctrl-D, ends the program")
                program.until("> ")
                time.sleep(0.1)  # so that the two are two
                program.type("\x03")
                self.assertEqual(program.end()[1], 0)

    @unittest.skipUnless(ctypes.util.find_library("edit"), "needs libedit")
    def test_lines_are_edited_and_remembered(self):
        program = self.start("--greedy", "--max-new-tokens", 4, terminal="xterm")
        program.until("> ")
        (first,) = (result["text"] for result in self.run_json(SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 4))
        first = first.replace("\n", "\r\n")
        for keys in ("XOMEO:\x01\x04R\r",  # to the beginning of the line, where X becomes R
                     "\x1b[A\x1b[A\r"):  # the line before /reset
            program.type(keys)
            program.until("\r\n" + first)
            program.until("> ")
            program.type("/reset\r")
            program.until("\r\n> ")
        program.type("\x04")
        self.assertEqual(program.end()[1], 0)


if __name__ == "__main__":
    unittest.main()
