"""`kiln compile --ranks N`: on the CPU, N ranks of a model in one process write what the whole model writes."""

import os
import unittest

from kilntest import CONFIG, SHAKESPEARE, KilnTest, ids, write_model


class Ranks(KilnTest):
    def split(self, model, ranks):
        path = self.path(f"{ranks}.kiln")
        self.kiln("compile", model, "--ranks", ranks, "--stage", "fused", "-o", path)
        return path

    def assert_agrees(self, model, ranks, *options):
        """The same tokens; logits that differ by the order of sums."""
        wanted = self.run_json(model, *options, "--logits", device="cpu")
        results = self.run_json(self.split(model, ranks), "--weights", model, *options, "--logits", device="cpu")
        self.assertEqual([result["tokens"] for result in results], [result["tokens"] for result in wanted])
        for result, other in zip(results, wanted):
            for row, expected in zip(result["logits"], other["logits"]):
                largest = max(map(abs, expected))
                self.assertLess(max(abs(a - b) for a, b in zip(row, expected)), 1e-5 * largest)

    def test_the_embedded_model(self):
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.assert_agrees(SHAKESPEARE, ranks, "--prompt", "ROMEO:", "--prompt", "To be", "--greedy", "--max-new-tokens", 12)

    def test_an_odd_model(self):
        """Heads, hidden channels and tokens that the ranks do not divide."""
        model = write_model(self.path("model"), {**CONFIG, "n_embd": 40, "n_head": 5, "n_inner": 20})
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.assert_agrees(model, ranks, "--tokens", ids([1, 2, 3]), "--seed", 3, "--max-new-tokens", 9)

    def test_kernels_are_refused(self):
        message = "2.kiln:1:1: error: select-kernels: expected a module of one rank, got 2: no kernel exchanges values between GPUs yet"
        path = self.split(SHAKESPEARE, 2)
        self.assert_fails(message, "compile", path, "-o", self.path("plan"))
        self.assertFalse(os.path.exists(self.path("plan")))
        self.assert_fails(message, "run", path, "--weights", SHAKESPEARE, "--prompt", "A", "--device", "emulate")


if __name__ == "__main__":
    unittest.main()
