"""kiln.compare."""
import os
import unittest

import kiln
import numpy as np
from kilntest import SHAKESPEARE, SOURCE, TINY_MODEL, KilnTest
from model_test import log_softmax

DRAFT = os.path.join(SOURCE, "graphs", "shakespeare-draft")
TEXT = "ROMEO:\nThe one of love, and, and that thou hast done;\nThe best of all the world, my lord.\n"


class CompareTest(KilnTest):
    def open(self, path, **options):
        model = kiln.open(path, device="cpu", **options)
        self.addCleanup(model.close)
        return model

    def test_perplexities_are_those_of_kiln_eval(self):
        found = kiln.compare(SHAKESPEARE, DRAFT, text=TEXT, window=16, device="cpu")
        for path, perplexity in ((SHAKESPEARE, found.perplexity_a), (DRAFT, found.perplexity_b)):
            evaluated = self.kiln("eval", path, "--text", self.write("text", TEXT), "--window", 16, "--device", "cpu",
                                  "--json", "--quiet").objects()[0]
            self.assertEqual(found.tokens_scored, evaluated["tokens_scored"])
            self.assertAlmostEqual(perplexity / evaluated["perplexity"], 1, delta=1e-4)

    def test_numbers_are_those_of_the_logits(self):
        a, b = self.open(SHAKESPEARE), self.open(DRAFT)
        tokens = a.tokenize(TEXT)[:12]
        found = kiln.compare(a, b, tokens=tokens)
        of_a, of_b = (model.logits(tokens[:-1], every_position=True).astype(np.float64) for model in (a, b))
        log_a, log_b = log_softmax(of_a), log_softmax(of_b)
        self.assertAlmostEqual(found.perplexity_b, np.exp(-log_b[np.arange(11), tokens[1:]].mean()), places=6)
        self.assertAlmostEqual(found.kl_divergence, (np.exp(log_a) * (log_a - log_b)).sum(axis=1).mean(), places=6)
        self.assertAlmostEqual(found.top1_agreement, (of_a.argmax(axis=1) == of_b.argmax(axis=1)).mean())
        self.assertAlmostEqual(found.largest_difference, np.abs(of_a - of_b).max())
        self.assertGreater(found.kl_divergence, 0.01)
        self.assertIn("KL divergence", str(found))

    def test_a_model_agrees_with_itself(self):
        model = self.open(SHAKESPEARE)
        found = kiln.compare(model, model, text=TEXT)
        self.assertEqual((found.kl_divergence, found.top1_agreement, found.largest_difference), (0, 1, 0))
        self.assertEqual(found.perplexity_a, found.perplexity_b)

    def test_windows_in_rows_give_the_same(self):
        alone = kiln.compare(SHAKESPEARE, DRAFT, text=TEXT, window=7, device="cpu")
        together = kiln.compare(self.open(SHAKESPEARE, batch=4), self.open(DRAFT, batch=3), text=TEXT, window=7)
        for name, value in vars(alone).items():
            self.assertAlmostEqual(getattr(together, name) / value, 1, delta=1e-6, msg=name)

    def test_wrong_arguments_are_refused(self):
        tiny = self.open(self.write("tiny.toml", TINY_MODEL), random_weights=1)
        model = self.open(SHAKESPEARE)
        for error, message, arguments in (
            (TypeError, "either text or tokens", {}),
            (TypeError, "either text or tokens", {"text": TEXT, "tokens": [1, 2]}),
            (ValueError, "window: expected 1 to 1024 tokens, got 0", {"text": TEXT, "window": 0}),
            (ValueError, "at least 2 tokens, got one of 1", {"tokens": [[1, 2], [3]]}),
            (ValueError, "expected token ids in 0..1008", {"tokens": [1, 2000]}),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                kiln.compare(model, model, **arguments)
        with self.assertRaisesRegex(ValueError, "one vocabulary, got 1009 and 31 tokens"):
            kiln.compare(model, tiny, tokens=[1, 2])


if __name__ == "__main__":
    unittest.main()
