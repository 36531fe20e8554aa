"""The tests of test_emulated_model.py for GPT-2 of other shapes."""

import json
import os
import unittest

from kilntest import LOGIT_TOLERANCES, SOURCE, KilnTest, ids, write_model
from variants import VARIANTS, new_tokens

with open(os.path.join(SOURCE, "tests", "data", "variants.json")) as file:
    EXPECTED = json.load(file)

DEVICE = os.environ.get("KILN_DEVICE", "emulate")


class Variants(KilnTest):
    def check(self, name):
        config, storage = VARIANTS[name]
        model = write_model(self.path(name), config, **storage)
        cases = EXPECTED[name]
        prompts = [argument for case in cases for argument in ("--tokens", ids(case["prompt"]))]
        count = min(new_tokens(config, case["prompt"]) for case in cases)
        results = self.run_json(model, *prompts, "--greedy", "--overflow", "slide", "--logits", "--max-new-tokens", count,
                                device=DEVICE)
        for result, case in zip(results, cases, strict=True):
            self.assertEqual(result["tokens"], case["tokens"][:count])
            for token, logit in case["logits"]:
                self.assertAlmostEqual(result["logits"][0][token], logit, delta=LOGIT_TOLERANCES["variants", "f32"])


def add_test(name):
    setattr(Variants, "test_" + name.replace("-", "_"), lambda self: self.check(name))


for variant_name in ("plain", "head-size-8", "head-size-24", "head-size-80", "head-size-256", "inner-1", "inner-37",
                     "activation-gelu", "activation-relu", "scaled-by-layer", "untied", "vocabulary-1", "vocabulary-7",
                     "positions-1", "everything"):
    add_test(variant_name)

if __name__ == "__main__":
    unittest.main()
