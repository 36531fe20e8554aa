"""The embedded model gives Hugging Face's results: tokens, logits and perplexity."""

import json
import math
import os
import unittest

from kilntest import LOGIT_TOLERANCES, SHAKESPEARE, SOURCE, KilnTest, ids

DATA = os.path.join(SOURCE, "tests", "data")

with open(os.path.join(DATA, "shakespeare-5m", "oracle.json")) as file:
    ORACLE = json.load(file)
with open(os.path.join(DATA, "eval.json")) as file:
    EVAL = json.load(file)


class Oracle(KilnTest):
    def test_tokens_and_logits(self):
        for prompt in ORACLE["prompts"]:
            expected = prompt["greedy_ids"][len(prompt["ids"]) :]
            options = ["--greedy", "--logits", "--max-new-tokens", len(expected)]
            (result,) = self.run_json(SHAKESPEARE, "--tokens", ids(prompt["ids"]), *options)
            self.assertEqual(result["tokens"], expected)
            self.assertEqual(prompt["text"] + result["text"], prompt["greedy_text"])
            self.assertEqual(result["finish_reason"], "length")
            for logit, wanted in zip(result["logits"][0], prompt["last_logits"], strict=True):
                self.assertAlmostEqual(logit, wanted, delta=LOGIT_TOLERANCES["shakespeare", "f32"])

    def test_text_prompts(self):
        texts = [argument for prompt in ORACLE["prompts"] for argument in ("--prompt", prompt["text"])]
        results = self.run_json(SHAKESPEARE, *texts, "--greedy", "--max-new-tokens", 8)
        for result, prompt in zip(results, ORACLE["prompts"], strict=True):
            self.assertEqual(result["prompt_tokens"], prompt["ids"])
            self.assertEqual(result["tokens"], prompt["greedy_ids"][len(prompt["ids"]) :][:8])


class Eval(KilnTest):
    def evaluate(self, *arguments):
        (result,) = self.kiln("eval", SHAKESPEARE, "--json", "--quiet", "--device", "cpu", *arguments).objects()
        self.assertAlmostEqual(result["perplexity"], math.exp(result["nll"] / result["tokens_scored"]))
        return result

    def test_windows_and_strides(self):
        for score in EVAL["scores"]:
            window, stride = score["window"], score["stride"]
            result = self.evaluate("--text", f"{DATA}/eval.txt", "--window", window, "--stride", stride)
            self.assertEqual((result["window"], result["stride"]), (window, stride))
            self.assertEqual(result["tokens_scored"], len(EVAL["tokens"]) - 1)
            self.assertAlmostEqual(result["nll"], score["nll"], delta=1e-5 * score["nll"])

    def test_tokens_of_the_text(self):
        (result,) = self.kiln("tokenize", SHAKESPEARE, "--file", f"{DATA}/eval.txt", "--json").objects()
        self.assertEqual(result["tokens"], EVAL["tokens"])

    @unittest.skipUnless("KILN_VALIDATION_TEXT" in os.environ, "KILN_VALIDATION_TEXT does not name validation.txt")
    def test_validation_text(self):
        result = self.evaluate("--text", os.environ["KILN_VALIDATION_TEXT"])
        self.assertEqual(result["tokens_scored"], ORACLE["perplexity"]["tokens_scored"])
        self.assertAlmostEqual(result["perplexity"], ORACLE["perplexity"]["ppl"], delta=0.005)


if __name__ == "__main__":
    unittest.main()
