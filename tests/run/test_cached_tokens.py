"""Attention of new tokens can have other kernels for few tokens in the cache than for many: results are the same."""

import os
import unittest

from kilntest import TINY_MODEL, KilnTest

DEVICE = os.environ.get("KILN_DEVICE", "emulate")
FEW = 6
DATABASE = f"""target = "sm_90a"
device = "a GPU"

[[choice]]
problem = "attention(f32[B,1,1,16], f32[B,1,16,16], i32[B], f32[B,1,16,16]) -> f32[B,1,16]"
rows = 2
tokens = {FEW}
kernel = "attention_split_kv_cluster"
tile = {{splits = 2, stages = 2, warps = 8}}
us = 1.0
model_us = 2.0
"""


class CachedTokens(KilnTest):
    def setUp(self):
        super().setUp()
        model = self.write("tiny.toml", TINY_MODEL)
        self.plain, self.plan = self.path("plain.plan"), self.path("few.plan")
        options = ("compile", model, "--max-batch", 2, "--quiet")
        self.kiln(*options, "--tuning", "none", "-o", self.plain)
        self.kiln(*options, "--tuning", self.write("measured.toml", DATABASE), "-o", self.plan)

    def kernel(self, plan, position):
        """The name of the attention's kernel in a step at this position."""
        listed = self.kiln("bench", plan, "--what", "kernels", "--batch", 2, "--length", position,
                           "--device", "emulate", "-o", "csv").out.decode()
        (line,) = [line for line in listed.splitlines() if line.startswith("attention")]
        return line.split(",")[0]

    def test_kernels_change_with_the_position(self):
        few, many = self.kernel(self.plan, FEW), self.kernel(self.plan, FEW + 1)
        self.assertNotEqual(few, many)
        self.assertEqual(self.kernel(self.plain, FEW), self.kernel(self.plain, FEW + 1))

    def results(self, plan, *options):
        rows = self.run_json(plan, "--random-weights", 1, "--tokens", "1,2,3", "--tokens", "4", "--ignore-eos", "--max-new-tokens", 10,
                             *options, device=DEVICE)
        return [(row["tokens"], row.get("logits")) for row in rows]

    def test_results_are_the_same(self):
        for options in (["--greedy", "--logits"], ["--seed", 3]):
            self.assertEqual(self.results(self.plan, *options), self.results(self.plain, *options))

    def test_both_kernels_run(self):
        right = self.results(self.plan, "--greedy", "--logits")
        for position in (FEW, FEW + 1):
            kernel = self.kernel(self.plan, position)
            with open(os.path.join(self.plan, "kernels", kernel + ".cu"), encoding="utf-8") as file:
                text = file.read()
            wrong = text.replace("const float scaled = scores *", "const float scaled = 4 * scores *")
            self.assertNotEqual(wrong, text)
            self.write(f"{position}/{kernel}.cu", wrong)
            self.assertNotEqual(self.results(self.plan, "--greedy", "--logits", "--kernels-from", self.path(str(position))), right)


if __name__ == "__main__":
    unittest.main()
