"""The order in which threads of the emulated device run changes no bit of a result."""

import unittest

from kilntest import SHAKESPEARE, KilnTest, ids, write_model
from variants import VARIANTS


class Schedules(KilnTest):
    def check(self, model, *arguments):
        options = ["--greedy", "--logits", "--check", "none"]
        for dtype in ("f32", "bf16", "f16"):
            results = []
            for schedule in ("in-order", "reversed", "random:1"):
                rows = self.run_json(model, *arguments, *options, "--dtype", dtype, "--schedule", schedule, device="emulate")
                results.append([(row["tokens"], row["logits"]) for row in rows])
            for other in results[1:]:
                self.assertEqual(results[0], other)

    def test_embedded_model(self):
        self.check(SHAKESPEARE, "--tokens", ids(range(5, 14)), "--max-new-tokens", 2)

    def test_variant(self):
        config, storage = VARIANTS["everything"]
        model = write_model(self.path("everything"), config, **storage)
        self.check(model, "--tokens", ids(range(1, 12)), "--tokens", "3,1,2", "--max-new-tokens", 3)


if __name__ == "__main__":
    unittest.main()
