"""`--device` with several devices: the work of one, shared, with the same results in the same order."""

import json
import os
import unittest

from kilntest import SHAKESPEARE, KilnTest, write_model
from test_lines import some_lines, text_of


class Replicas(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))

    def test_lines_give_the_results_of_one_device(self):
        lines = text_of(some_lines(25)).encode()
        run = ("run", self.model, "--check", "none", "--input", "-", "--batch", 2)
        alone = self.kiln(*run, "--device", "emulate", stdin=lines)
        shared = self.kiln(*run, "--device", "emulate,emulate,emulate", stdin=lines)
        self.assertEqual(shared.out, alone.out)
        self.assertIn("25 results on 3 devices", shared.err)
        self.assertIn("25 results:", alone.err)

    def test_prompts_give_the_results_of_one_device(self):
        run = ("--tokens", "1,2,3", "--tokens", "4,5", "--tokens", "6", "--n", 2, "--max-new-tokens", 6, "--seed", 3,
               self.model, "--check", "none")
        tokens = [result["tokens"] for result in self.run_json(*run, device="emulate")]
        self.assertEqual([result["tokens"] for result in self.run_json(*run, device="emulate,emulate")], tokens)
        self.assertEqual(len(tokens), 6)

    def test_a_text_has_the_perplexity_of_one_device(self):
        text = self.write("text.txt", "Now is the winter of our discontent made glorious summer by this sun of York. " * 3)
        run = ("eval", SHAKESPEARE, "--text", text, "--window", 8, "--batch", 2, "--json", "--quiet")
        alone, shared = (self.kiln(*run, "--device", device).objects()[0] for device in ("emulate", "emulate,emulate"))
        for result in (alone, shared):
            del result["tokens_per_second"]
        self.assertEqual(shared, alone)

    def test_options_that_need_one_device_say_so(self):
        several = ("run", self.model, "--tokens", "1", "--device", "emulate,emulate")
        for option in (("--draft", "ngram"), ("--trace", self.path("t.json")), ("--interactive",)):
            self.assert_fails(f"{option[0]}: expected one device, got --device emulate,emulate", *several, *option, code=2)
        self.assert_fails("--check: reference: expected one device", *several, "--check", "reference", code=2)
        self.assert_fails("--what speculation: expected one device, got --device cuda:all",
                          "bench", self.model, "--what", "speculation", "--device", "cuda:all", code=2)

    def test_lists_are_of_gpus_or_of_emulated_devices(self):
        for devices in ("cuda:0,cpu", "cpu,cpu", "emulate,cuda:0", "cuda:0,", "cuda:all,cuda:0", "auto,auto"):
            self.assert_fails(f"--device: expected auto, cpu, emulate, cuda:N, or several GPUs, cuda:0,cuda:1 or cuda:all, "
                              f"got '{devices}'", "run", self.model, "--tokens", "1", "--device", devices, code=2)
        self.assert_fails("--device: expected each GPU once, got 'cuda:1,cuda,cuda:0'",
                          "eval", self.model, "--text", "-", "--device", "cuda:1,cuda,cuda:0", code=2)


if __name__ == "__main__":
    unittest.main()
