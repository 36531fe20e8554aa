"""Streams of tokens: in time, cancelled, interrupted, dropped."""
import subprocess
import sys
import unittest

import kiln
from kilntest import SHAKESPEARE, TIMEOUT, KilnTest

# More tokens than any test waits for.
ENDLESS = {"max_new_tokens": 1_000_000, "overflow": "slide", "ignore_eos": True}


class StreamTest(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = kiln.open(SHAKESPEARE, device="cpu", batch=2)
        self.addCleanup(self.model.close)

    def run_script(self, body):
        script = f"import kiln\nmodel = kiln.open({SHAKESPEARE!r}, device='cpu')\nendless = {ENDLESS!r}\n" + body
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT,
                              check=False)

    def test_tokens_are_those_of_the_result(self):
        stream = self.model.generate(["ROMEO:", [5, 300, 7]], greedy=True, max_new_tokens=12)
        tokens = list(stream)
        for index, generation in enumerate(stream.result()):
            own = [token for token in tokens if token.sequence == index]
            self.assertEqual([token.id for token in own], generation.tokens.tolist())
            self.assertEqual("".join(token.text for token in own), generation.text)
            self.assertEqual(generation.finish_reason, kiln.FinishReason.LENGTH)
        self.assertEqual(list(stream), [])

    def test_tokens_come_before_the_end_and_cancelling_ends(self):
        stream = self.model.generate("ROMEO:", **ENDLESS)
        first = next(stream)
        stream.cancel()
        generation = stream.result()
        self.assertEqual(generation.finish_reason, kiln.FinishReason.CANCELLED)
        self.assertEqual(generation.tokens[0], first.id)
        self.assertEqual(str(generation.finish_reason), "cancelled")

    def test_a_model_with_a_stream_is_busy(self):
        with self.model.generate("ROMEO:", **ENDLESS) as stream:
            next(stream)
            for call in (lambda: self.model.logits("a"), lambda: self.model.generate("a").result()):
                with self.assertRaisesRegex(kiln.BusyError, "finish or cancel a stream first"):
                    call()
            self.assertEqual(self.model.tokenize("a").size, 1)
        self.assertEqual(self.model.logits("a").shape, (1009,))

    def test_a_dropped_stream_is_cancelled(self):
        stream = self.model.generate("ROMEO:", **ENDLESS)
        next(stream)
        thread = stream.worker.thread
        del stream
        thread.join(TIMEOUT)
        self.assertFalse(thread.is_alive())

    def test_the_call_after_a_dropped_or_cancelled_stream_waits_for_it(self):
        for _ in range(30):
            for token in self.model.generate("ROMEO:", **ENDLESS):
                self.assertEqual(token.sequence, 0)
                break
            self.assertEqual(self.model.logits("a").shape, (1009,))
            stream = self.model.generate(["ROMEO:", "JULIET:"], **ENDLESS)
            next(stream)
            stream.cancel()
            self.assertEqual(self.model.generate("a", max_new_tokens=1).result().tokens.size, 1)
            self.assertEqual(stream.result()[0].finish_reason, kiln.FinishReason.CANCELLED)

    def test_a_closed_model_ends_its_stream_first(self):
        stream = self.model.generate("ROMEO:", greedy=True, max_new_tokens=20)
        next(stream)
        self.model.close()
        self.assertEqual(stream.result().tokens.size, 20)

    def test_errors_come_with_the_first_token(self):
        stream = self.model.generate([[1009]])
        with self.assertRaisesRegex(kiln.Error, "expected token ids in 0..1008, got 1009"):
            next(stream)
        with self.assertRaises(kiln.Error):
            stream.result()

    def test_an_interrupt_ends_the_stream_and_not_the_model(self):
        result = self.run_script("""
import os, signal, threading
stream = model.generate("ROMEO:", **endless)
next(stream)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for token in stream:
        pass
except KeyboardInterrupt:
    print("interrupted", stream.result().finish_reason, model.logits("a").shape)
""")
        self.assertEqual(result.stdout, "interrupted cancelled (1009,)\n", result.stderr)

    def test_the_interpreter_ends_with_a_stream_left(self):
        result = self.run_script("stream = model.generate('ROMEO:', **endless)\nprint(next(stream).sequence)\n")
        self.assertEqual((result.returncode, result.stdout), (0, "0\n"), result.stderr)
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    unittest.main()
