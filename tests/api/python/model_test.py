"""kiln.open: text, tokens and numbers of a model."""
import os
import threading
import unittest

import kiln
import numpy as np
from kilntest import SHAKESPEARE, TINY_MODEL, KilnTest, ids


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


class ModelTest(KilnTest):
    def open(self, path=SHAKESPEARE, **options):
        model = kiln.open(path, **{"device": "cpu", **options})
        self.addCleanup(model.close)
        return model

    def assert_equals_run(self, path, prompts, arguments, device="cpu", opening={}, **options):
        """`generate` gives what `kiln run` prints, to the last bit of the logits."""
        model = self.open(path, device=device, batch=len(prompts), **opening)
        got = model.generate(prompts, keep_logits=True, **options).result()
        tokens = [argument for prompt in prompts for argument in ("--tokens", ids(prompt))]
        expected = self.run_json(os.fspath(path), "--logits", *arguments, *tokens, device=device)
        for own, run in zip(got, expected, strict=True):
            self.assertEqual(own.tokens.tolist(), run["tokens"])
            self.assertEqual(own.text, run["text"])
            self.assertEqual(own.finish_reason, run["finish_reason"])
            np.testing.assert_array_equal(own.logits, np.array(run["logits"], np.float32))
            chosen = log_softmax(own.logits)[np.arange(own.tokens.size), own.tokens]
            np.testing.assert_allclose(own.log_probabilities, chosen, atol=1e-5)
            self.assertEqual(own.token_ms.shape, own.tokens.shape)

    def test_generates_what_kiln_run_prints(self):
        prompts = [[5, 300, 7], [1]]
        self.assert_equals_run(SHAKESPEARE, prompts, ["--greedy", "--max-new-tokens", 8], greedy=True, max_new_tokens=8)
        self.assert_equals_run(
            SHAKESPEARE, prompts,
            ["--seed", 3, "--temperature", 0.7, "--top-k", 5, "--top-p", 0.9, "--max-new-tokens", 8, "--stop", "th"],
            seed=3, temperature=0.7, top_k=5, top_p=0.9, max_new_tokens=8, stop="th")

    def test_generates_the_same_with_kernels(self):
        plan = kiln.compile(self.write("tiny.toml", TINY_MODEL), self.path("plan"), cubins=False)
        self.assert_equals_run(plan, [[5, 30, 7], [1]], ["--greedy", "--max-new-tokens", 4, "--random-weights", 2],
                               device="emulate", opening={"random_weights": 2, "can_score": False}, greedy=True,
                               max_new_tokens=4)

    def test_tokenizes(self):
        model = self.open()
        for text in ("ROMEO:\nThe one", "", "naïve – 語"):
            tokens = model.tokenize(text)
            self.assertEqual(tokens.dtype, np.int32)
            expected = self.kiln("tokenize", SHAKESPEARE, "--json", "--text", text).objects()[0]["tokens"]
            self.assertEqual(tokens.tolist(), expected)
            self.assertEqual(model.detokenize(tokens), text)
            self.assertEqual(model.detokenize_bytes(list(tokens)), text.encode())
        np.testing.assert_array_equal(model.tokenize(b"ROMEO:"), model.tokenize("ROMEO:"))
        self.assertEqual(model.tokenize("<|endoftext|>", special=True).tolist(), list(model.eos_tokens))
        self.assertEqual(model.detokenize(model.tokenize("語")[:1]), "�")

    def test_tells_about_itself(self):
        model = self.open(batch=3)
        self.assertEqual((model.name, model.device, model.batch), ("shakespeare_5m", "cpu", 3))
        self.assertEqual((model.vocabulary_size, model.context_length, model.layers), (1009, 1024, 6))

    def test_logits_of_a_prompt(self):
        model = self.open(batch=2)
        tokens = model.tokenize("ROMEO:\nThe one")
        last = model.logits("ROMEO:\nThe one")
        every = model.logits(tokens.astype(np.int64), every_position=True)
        self.assertEqual((last.dtype, last.shape, every.shape), (np.float32, (1009,), (tokens.size, 1009)))
        np.testing.assert_allclose(every[-1], last, atol=1e-4)
        log_probabilities = model.log_probabilities(tokens)
        self.assertEqual((log_probabilities.dtype, log_probabilities.shape), (np.float64, (tokens.size - 1,)))
        rows = np.arange(tokens.size - 1)
        np.testing.assert_allclose(log_probabilities, log_softmax(every)[rows, tokens[1:]], atol=1e-4)

    def test_logits_step_by_step(self):
        model = self.open(batch=2)
        first = model.prefill([[5, 300], "ROMEO:"])
        second = model.decode([7, kiln.IDLE_ROW])
        self.assertEqual((first.shape, second.shape), ((2, 1009), (2, 1009)))
        np.testing.assert_array_equal(first[1], second[1])
        np.testing.assert_allclose(second[0], model.logits([5, 300, 7]), atol=1e-4)

    def test_logits_are_copies_that_speak_dlpack(self):
        model = self.open()
        logits = model.logits("ROMEO:")
        self.assertEqual(logits.__dlpack_device__(), (1, 0))  # the CPU
        same = np.from_dlpack(logits)
        self.assertTrue(np.shares_memory(logits, same))
        before = logits.copy()
        model.logits("JULIET:")
        model.close()
        np.testing.assert_array_equal(same, before)

    def test_an_empty_prompt_begins_a_text(self):
        model = self.open()
        expected = self.run_json(SHAKESPEARE, "--prompt", "", "--greedy", "--max-new-tokens", "4")[0]
        self.assertEqual(model.generate("", greedy=True, max_new_tokens=4).result().tokens.tolist(), expected["tokens"])

    def test_wrong_arguments_are_refused(self):
        model = self.open()
        for error, message, call in (
            (TypeError, "expected token ids, which are integers, got float64", lambda: model.logits([1.5])),
            (TypeError, "", lambda: model.logits(None)),
            (TypeError, "", lambda: model.generate(5)),
            (ValueError, "of shape \\[T\\], got shape \\[1, 2\\]", lambda: model.logits(np.array([[1, 2]]))),
            (ValueError, "of 32 bits", lambda: model.logits([1 << 40])),
            (ValueError, "overflow: expected one of error", lambda: model.generate("a", overflow="x")),
            (ValueError, "zero bytes", lambda: model.generate("a", stop="a\0b")),
            (ValueError, "zero byte", lambda: kiln.open("a\0b")),
            (TypeError, "", lambda: kiln.open(5)),
            (TypeError, "device: expected a str", lambda: kiln.open(SHAKESPEARE, device=5)),
            (kiln.UsageError, "device: expected auto, cpu", lambda: kiln.open(SHAKESPEARE, device="tpu")),
            (ValueError, "batch: expected 1 to 4096", lambda: kiln.open(SHAKESPEARE, batch=0)),
            (kiln.Error, "no/such: error: no such model", lambda: kiln.open("no/such")),
            (kiln.Error, "expected token ids in 0..1008", lambda: model.logits([1009])),
            (kiln.Error, "expected at least 2, got 1", lambda: model.log_probabilities([1])),
            (ValueError, "rows: expected 1 to the batch of 1, got 2", lambda: model.prefill([[1], [2]])),
            (ValueError, "can_score", lambda: self.open(can_score=False).log_probabilities([1, 2])),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()
        with self.assertRaises(kiln.Error) as caught:
            kiln.open("no/such")
        self.assertEqual(caught.exception.code, kiln.ErrorCode.FAILED)

    def test_a_closed_model_is_refused(self):
        with kiln.open(SHAKESPEARE, device="cpu") as model:
            model.logits("a")
        with self.assertRaisesRegex(ValueError, "one that was closed"):
            model.logits("a")
        model.close()
        self.assertEqual(model.tokenize("ROMEO:").size, model.tokenize("ROMEO:").size)

    def test_models_of_several_threads(self):
        prompts = ["ROMEO:", "JULIET:", "KING:"]
        alone = [self.open().generate(prompt, greedy=True, max_new_tokens=8).result().text for prompt in prompts]
        got = {}

        def generate(prompt):
            got[prompt] = self.open().generate(prompt, greedy=True, max_new_tokens=8).result().text

        threads = [threading.Thread(target=generate, args=(prompt,)) for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([got[prompt] for prompt in prompts], alone)


if __name__ == "__main__":
    unittest.main()
