"""Sampling kernels, run without a GPU and with every access checked, draw the same tokens as the CPU from the same
logits."""

import unittest

from kilntest import CONFIG, SHAKESPEARE, KilnTest, ids, write_model

# The kernel chooses from a short list if that suffices, else from the whole row, and without top-k, top-p and min-p from
# the best of each group of ids. Which of them it uses
# depends on k, on the size of the vocabulary, and on how flat the temperature makes the probabilities.
WAYS = {
    "top_k": ["--top-k", 5],
    "large_top_k": ["--top-k", 600, "--temperature", 5],
    "top_p": ["--top-p", 0.9, "--top-k", 0],
    "top_p_of_flat": ["--top-p", 0.99, "--top-k", 0, "--temperature", 9],
    "top_k_and_top_p": ["--top-k", 20, "--top-p", 0.8],
    "large_top_k_and_top_p": ["--top-k", 700, "--top-p", 0.95, "--temperature", 9],
    "temperature": ["--temperature", 1.5, "--top-k", 0],
    "min_p": ["--min-p", 0.2, "--top-k", 0],
    "min_p_of_flat": ["--min-p", 0.01, "--top-k", 0, "--temperature", 9],
    "top_k_top_p_and_min_p": ["--top-k", 20, "--top-p", 0.9, "--min-p", 0.3],
    "defaults": [],
}


class EmulatedSampling(KilnTest):
    def check(self, model, *options):
        def tokens(device):
            return [result["tokens"] for result in self.run_json(model, *options, device=device)]

        self.assertEqual(tokens("emulate"), tokens("cpu"))

    def check_small_model(self, way):
        """Generates two sequences with a model that has little more than a vocabulary."""
        config = {**CONFIG, "vocab_size": 5000, "n_embd": 8, "n_layer": 1, "n_head": 1}
        model = write_model(self.path("model"), config)
        self.check(model, "--tokens", ids([1, 2, 3]), "--tokens", 4, "--max-new-tokens", 4, "--seed", 3, *WAYS[way])

    def test_embedded_model(self):
        self.check(SHAKESPEARE, "--prompt", "ROMEO:", "--max-new-tokens", 2, "--seed", 5)


def add_test(way):
    setattr(EmulatedSampling, "test_" + way, lambda self: self.check_small_model(way))


for name in WAYS:
    add_test(name)

if __name__ == "__main__":
    unittest.main()
