"""Generated kernels give Hugging Face's results: run without a GPU, or on the device that KILN_DEVICE names."""

import json
import os
import unittest

from kilntest import LOGIT_TOLERANCES, SHAKESPEARE, SOURCE, KilnTest, ids, write_model
from variants import VARIANTS

DATA = os.path.join(SOURCE, "tests", "data")

with open(os.path.join(DATA, "shakespeare-5m", "oracle.json")) as file:
    ORACLE = json.load(file)

NEW_TOKENS = 12
DEVICE = os.environ.get("KILN_DEVICE", "emulate")


class EmbeddedModel(KilnTest):
    def prompts(self):
        return [argument for prompt in ORACLE["prompts"] for argument in ("--tokens", ids(prompt["ids"]))]

    def check_tokens(self, dtype):
        """Runs all prompts in one batch. Accesses are not checked here, but in the tests below."""
        results = self.run_json(SHAKESPEARE, *self.prompts(), "--greedy", "--logits", "--max-new-tokens", NEW_TOKENS, "--check",
                                "none", "--dtype", dtype, device=DEVICE)
        for result, prompt in zip(results, ORACLE["prompts"], strict=True):
            length = len(prompt["ids"])
            self.assertEqual(result["tokens"], prompt["greedy_ids"][length : length + NEW_TOKENS])
            for logit, wanted in zip(result["logits"][0], prompt["last_logits"], strict=True):
                self.assertAlmostEqual(logit, wanted, delta=LOGIT_TOLERANCES["shakespeare", dtype])

    def test_tokens_and_logits(self):
        """Uses the kernels that run on any GPU."""
        self.check_tokens("f32")

    def test_tokens_and_logits_with_tensor_cores(self):
        """Uses the kernels for sm_80 and up; they choose the same tokens."""
        self.check_tokens("f16")

    def test_every_step(self):
        """Checks every access, and compares every step with the reference executor. The tests below cover bf16."""
        for dtype in ("f32", "f16"):
            result = self.kiln("run", SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 2, "--dtype", dtype,
                               "--device", DEVICE, "--check", "reference")
            self.assertIn("steps agree with the reference executor", result.err)

    def test_every_step_of_a_batch(self):
        """Like test_every_step, with the kernels for the rows of several sequences."""
        result = self.kiln("run", SHAKESPEARE, "--prompt", "ROMEO:", "--prompt", "To be", "--prompt", "A", "--greedy",
                           "--max-new-tokens", 2, "--dtype", "bf16", "--device", DEVICE, "--check", "reference")
        self.assertIn("steps agree with the reference executor", result.err)

    def test_products_of_the_library(self):
        """Without a GPU, these steps are computed without the library."""
        prompt = ORACLE["prompts"][0]
        (result,) = self.run_json(SHAKESPEARE, "--tokens", ids(prompt["ids"]), "--greedy", "--max-new-tokens", 8, "--check", "none",
                                  "--matmul", "cublaslt", device=DEVICE)
        length = len(prompt["ids"])
        self.assertEqual(result["tokens"], prompt["greedy_ids"][length : length + 8])
        result = self.kiln("run", SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 2, "--dtype", "bf16",
                           "--matmul", "cublaslt", "--device", DEVICE, "--check", "reference")
        self.assertIn("steps agree with the reference executor", result.err)

    def test_scores(self):
        """The score of a text: by logits in memory, in one kernel or in three, and by a product that stores none."""
        text = b"ROMEO:\nWhat light through yonder window breaks?\n"
        evaluate = lambda *arguments: self.kiln("eval", SHAKESPEARE, "--text", "-", "--json", *arguments, stdin=text).objects()[0]
        wanted = evaluate("--device", "cpu")
        for arguments, tolerance in ((("--dtype", "f32"), 1e-6), (("--strategy", "fusion=off"), 1e-6), (("--dtype", "tf32"), 1e-3),
                                     (("--dtype", "bf16"), 1e-3), (("--dtype", "f16"), 1e-3)):
            got = evaluate("--device", DEVICE, *arguments)
            self.assertAlmostEqual(got["nll"], wanted["nll"], delta=tolerance * wanted["nll"], msg=arguments)
            self.assertAlmostEqual(got["accuracy"], wanted["accuracy"], delta=tolerance, msg=arguments)

    def test_every_step_as_contexts_slide(self):
        """Uses unequal prompts, and calls on some of the rows. One 16-bit type suffices."""
        config, storage = VARIANTS["head-size-24"]
        model = write_model(self.path("model"), config, **storage)
        prompts = ["--tokens", ids(range(config["n_positions"] - 1)), "--tokens", "3,1,2"]
        for dtype in ("f32", "bf16"):
            result = self.kiln("run", model, *prompts, "--greedy", "--overflow", "slide", "--max-new-tokens", 4, "--dtype", dtype,
                               "--device", DEVICE, "--check", "reference")
            self.assertIn("steps agree with the reference executor", result.err)


if __name__ == "__main__":
    unittest.main()
