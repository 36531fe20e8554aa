"""All layers of a new token in one kernel, --decode persistent, on the emulated device."""

import unittest

from kilntest import KilnTest, ids

# 12 heads would take minutes: two, whose clusters have no hidden channels, beside clusters that have only those.
MODEL = """vocab_size = 37
n_positions = 64
n_embd = 128
n_layer = 2
n_head = 2
n_inner = 256
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
"""
LONG, SHORT = ids(range(3, 36)), "7"
TOLERANCE = 0.02  # of bf16, where logits are up to 1


class PersistentDecode(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("model.toml", MODEL)

    def decode(self, *arguments, model=None, dtype="bf16"):
        return self.run_json(model or self.model, "--random-weights", 1, "--dtype", dtype, "--decode", "persistent", "--greedy",
                             "--logits", *arguments, device="emulate")

    def test_logits_are_those_of_the_reference(self):
        prompts = ("--tokens", LONG, "--tokens", SHORT)
        expected = self.run_json(self.model, "--random-weights", 1, *prompts, "--greedy", "--logits", "--max-new-tokens", 3)
        for dtype in ("bf16", "f16"):
            for row, reference in zip(self.decode(*prompts, "--max-new-tokens", 3, dtype=dtype), expected, strict=True):
                self.assertEqual(row["tokens"], reference["tokens"])
                for logits, others in zip(row["logits"], reference["logits"], strict=True):
                    for one, other in zip(logits, others, strict=True):
                        self.assertAlmostEqual(one, other, delta=TOLERANCE)

    def test_every_step_is_as_the_reference_computes_it(self):
        self.decode("--tokens", SHORT, "--max-new-tokens", 2, "--check", "reference")

    def test_bits_do_not_depend_on_the_order_of_threads(self):
        options = ("--tokens", LONG, "--max-new-tokens", 2, "--check", "none", "--schedule")
        expected = self.decode(*options, "in-order")[0]["logits"]
        for schedule in ("reversed", "random:1", "random:2"):
            self.assertEqual(self.decode(*options, schedule)[0]["logits"], expected)

    def test_a_model_that_the_kernel_does_not_run_is_refused(self):
        message = "error: fused @decode_layers: expected a model that the kernel decode_layers runs on sm_90a: 16-bit elements"
        self.assert_fails(message, "compile", self.model, "--decode", "persistent", "-o", self.path("plan"))
        odd = self.write("odd.toml", MODEL.replace("n_head = 2", "n_head = 4"))
        self.assert_fails(message, "compile", odd, "--dtype", "bf16", "--decode", "persistent", "-o", self.path("plan"))
        self.assert_fails(message, "compile", self.model, "--dtype", "bf16", "--decode", "persistent", "--max-batch", 9, "-o",
                          self.path("plan"))


if __name__ == "__main__":
    unittest.main()
