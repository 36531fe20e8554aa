"""Results on the emulated device do not depend on the order in which its threads run, to the last bit."""

import json
import os
import unittest

from kilntest import SHAKESPEARE, KilnTest, ids, write_model
from variants import VARIANTS


class Schedules(KilnTest):
    def check(self, model, *arguments):
        options = ["--greedy", "--logits", "--check", "none"]
        # f16 and bf16 share templates, and with them the order of operations, so one suffices.
        for dtype in ("f32", "bf16"):
            results = []
            for schedule in ("in-order", "reversed", "random:1"):
                rows = self.run_json(model, *arguments, *options, "--dtype", dtype, "--schedule", schedule, device="emulate")
                results.append([(row["tokens"], row["logits"]) for row in rows])
            for other in results[1:]:
                self.assertEqual(results[0], other)

    def test_kernels_of_the_embedded_model(self):
        """One layer of this model has all of its kernels."""
        with open(os.path.join(SHAKESPEARE, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        keys = ("vocab_size", "n_positions", "n_embd", "n_head", "activation_function", "layer_norm_epsilon")
        lines = [f"{key} = {json.dumps(config[key])}" for key in keys]
        model = self.write("layer.toml", "\n".join([*lines, "n_layer = 1", "tie_word_embeddings = true", ""]))
        self.check(model, "--random-weights", 1, "--tokens", ids(range(5, 14)), "--max-new-tokens", 2)

    def test_variant(self):
        config, storage = VARIANTS["everything"]
        model = write_model(self.path("everything"), config, **storage)
        self.check(model, "--tokens", ids(range(1, 12)), "--tokens", "3,1,2", "--max-new-tokens", 3)


if __name__ == "__main__":
    unittest.main()
