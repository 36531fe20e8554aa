"""Every GPT-2 variant gives Hugging Face's tokens and logits. A batch of unequal prompts gives the results of its
prompts alone."""

import json
import os
import unittest

from kilntest import LOGIT_TOLERANCES, SOURCE, KilnTest, ids, write_model
from variants import VARIANTS, new_tokens, prompts

with open(os.path.join(SOURCE, "tests", "data", "variants.json")) as file:
    EXPECTED = json.load(file)


class Variants(KilnTest):
    def test_all_have_expectations(self):
        self.assertEqual(list(EXPECTED), list(VARIANTS))

    def check(self, name):
        config, storage = VARIANTS[name]
        model = write_model(self.path(name), config, **storage)
        cases = EXPECTED[name]
        self.assertEqual([case["prompt"] for case in cases], prompts(config))

        batch = []
        for case in cases:
            count = new_tokens(config, case["prompt"])
            # With slide, the token after a full context can be requested; nothing slides before it is chosen.
            options = ["--greedy", "--overflow", "slide", "--logits", "--max-new-tokens", count]
            (alone,) = self.run_json(model, "--tokens", ids(case["prompt"]), *options)
            self.assertEqual(alone["prompt_tokens"], case["prompt"])
            self.assertEqual(alone["tokens"], case["tokens"])
            self.assertEqual([len(row) for row in alone["logits"]], [config["vocab_size"]] * count)
            for token, logit in case["logits"]:
                self.assertAlmostEqual(alone["logits"][0][token], logit, delta=LOGIT_TOLERANCES["variants", "f32"])
            batch.append(alone)

        tokens = [argument for case in cases for argument in ("--tokens", ids(case["prompt"]))]
        together = self.run_json(model, *tokens, "--greedy", "--overflow", "slide", "--logits", "--max-new-tokens", 1)
        for row, alone in zip(together, batch, strict=True):
            self.assertEqual((row["tokens"], row["logits"]), (alone["tokens"][:1], alone["logits"][:1]))


def add_test(name):
    setattr(Variants, "test_" + name.replace("-", "_"), lambda self: self.check(name))


for variant_name in VARIANTS:
    add_test(variant_name)

if __name__ == "__main__":
    unittest.main()
