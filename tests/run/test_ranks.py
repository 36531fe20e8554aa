"""`--ranks N`: N ranks of a model write what the whole model writes, by the reference executor and by kernels that exchange
values between emulated devices."""

import json
import os
import unittest

from kilntest import CONFIG, SHAKESPEARE, KilnTest, break_sums_of_rank_1, ids, run_kiln, write_model


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

    def assert_kernels_agree(self, model, ranks, dtype, *options):
        """The same tokens, and logits that differ by the order of sums and the rounding of the type."""
        tolerance = {"f32": 1e-5, "bf16": 3e-2}[dtype]
        whole = self.run_json(model, "--dtype", dtype, *options, "--logits", device="emulate")
        split = self.run_json(model, "--dtype", dtype, "--ranks", ranks, *options, "--logits", device="emulate")
        for result, other in zip(split, whole, strict=True):
            if dtype == "f32":
                self.assertEqual(result["tokens"], other["tokens"])
            row, expected = result["logits"][0], other["logits"][0]
            self.assertLess(max(abs(a - b) for a, b in zip(row, expected)), tolerance * max(map(abs, expected)))
        return split

    def test_kernels(self):
        for ranks, dtype in ((2, "f32"), (4, "f32"), (2, "bf16")):
            with self.subTest(ranks=ranks, dtype=dtype):
                self.assert_kernels_agree(SHAKESPEARE, ranks, dtype, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 4)

    def test_kernels_of_an_odd_model(self):
        """Heads, hidden channels and tokens that the ranks do not divide, and several sequences."""
        for size, heads in ((40, 5), (24, 3)):
            model = write_model(self.path(f"model{size}"), {**CONFIG, "n_embd": size, "n_head": heads, "n_inner": 20})
            for ranks, schedule in ((2, "random:1"), (3, "reversed")):
                with self.subTest(size=size, ranks=ranks):
                    self.assert_kernels_agree(model, ranks, "f32", "--tokens", ids([1, 2, 3]), "--tokens", ids([4]), "--seed", 3,
                                              "--max-new-tokens", 5, "--schedule", schedule)

    def test_sums_in_products_have_the_bits_of_sums_of_their_own(self):
        """Any number of sequences, in the kernels that products of few rows have."""
        model = write_model(self.path("model"), {**CONFIG, "n_embd": 64})
        graph = self.path("fused.kiln")
        self.kiln("compile", model, "--dtype", "bf16", "--ranks", 2, "--decode", "graph", "--max-batch", 20, "--stage", "fused", "-o", graph)
        passes = "defer-norm,gather-statistics,fuse-statistics,{}select-kernels,choose-tiles,place-parameters,plan-memory"
        plans = {}
        for name, fusing in (("alone", ""), ("fused", "fuse-exchange,")):
            plans[name] = self.path(name + ".plan")
            self.kiln("compile", graph, "--passes", passes.format(fusing), "--stage", "cuda", "--quiet", "-o", plans[name])
        kernels = {name: os.listdir(os.path.join(plan, "kernels")) for name, plan in plans.items()}
        self.assertFalse(any("matmul_all_reduce" in kernel for kernel in kernels["alone"]))
        self.assertTrue(any("matmul_all_reduce" in kernel for kernel in kernels["fused"]))
        for rows in (1, 9, 20):
            prompts = [option for row in range(rows) for option in ("--tokens", ids([row + 1, row % 5 + 3]))]
            options = ("--weights", model, *prompts, "--greedy", "--ignore-eos", "--max-new-tokens", 3, "--logits")
            alone, fused = (self.run_json(plans[name], *options, device="emulate") for name in ("alone", "fused"))
            for result in alone + fused:
                del result["timing"]
            self.assertEqual(fused, alone)

    def test_tokens_are_chosen_on_the_devices(self):
        """Without logits, every rank chooses the tokens by itself."""
        options = ("--prompt", "ROMEO:", "--prompt", "To be", "--seed", 5, "--max-new-tokens", 6)
        whole = self.run_json(SHAKESPEARE, *options, device="emulate")
        for ranks in (2, 4):
            split = self.run_json(SHAKESPEARE, "--ranks", ranks, *options, device="emulate")
            self.assertEqual([result["tokens"] for result in split], [result["tokens"] for result in whole])

    def test_devices_have_one_copy_together(self):
        """All sequences run side by side on it."""
        options = ("--tokens", "1,2", "--tokens", "3", "--tokens", "4", "--greedy", "--max-new-tokens", 3)
        model = write_model(self.path("model"), CONFIG)
        whole, split = (self.run_json(model, "--ranks", 2, *options, device=device) for device in ("emulate", "emulate,emulate"))
        self.assertEqual([result["tokens"] for result in split], [result["tokens"] for result in whole])

    def test_a_plan(self):
        """A plan knows how many ranks it is for; `emulate` stands for as many devices."""
        plan = self.path("plan")
        self.kiln("compile", SHAKESPEARE, "--ranks", 2, "--stage", "cuda", "--quiet", "-o", plan)
        prompt = ("--prompt", "A", "--greedy", "--max-new-tokens", 3)
        wanted = self.kiln("run", SHAKESPEARE, *prompt, "--device", "emulate", "--quiet").out
        for device in ("emulate", "emulate,emulate"):
            self.assertEqual(self.kiln("run", plan, *prompt, "--device", device, "--quiet").out, wanted)
        self.assert_fails("--ranks: plan is a plan for 2 GPUs; compile the model again with --ranks 3", "run", plan, *prompt, "--ranks", 3, code=2)
        self.assert_fails("--device emulate,emulate,emulate: expected 2 devices, one for each rank of the model, got 3", "run", plan, *prompt,
                          "--device", "emulate,emulate,emulate", code=2)
        self.assert_fails("--check reference: expected a model on one GPU, got one that is split among 2", "run", plan, *prompt,
                          "--device", "emulate", "--check", "reference", code=2)
        self.assert_fails("--draft: expected a model on one GPU, got one that is split among 2", "run", plan, *prompt,
                          "--device", "emulate", "--draft", "ngram", code=2)

    def test_eval(self):
        text = self.path("text")
        with open(text, "w") as file:
            file.write("To be, or not to be, that is the question. " * 9)
        options = ("eval", SHAKESPEARE, "--text", text, "--window", 32, "--device", "emulate", "--quiet", "--json")
        whole, split = (json.loads(self.kiln(*options, *more).out) for more in ((), ("--ranks", 2)))
        self.assertAlmostEqual(split["nll"], whole["nll"], delta=1e-4 * whole["nll"])

    def test_a_rank_that_fails_ends_all(self):
        """The others would wait for it."""
        model = write_model(self.path("model"), CONFIG)
        plan = self.path("plan")
        self.kiln("compile", model, "--ranks", 2, "--stage", "cuda", "--quiet", "-o", plan)
        edited = self.path("edited")
        break_sums_of_rank_1(plan, edited)
        options = ("--weights", model, "--tokens", "1,2", "--max-new-tokens", 2, "--device", "emulate", "--kernels-from", edited)
        self.assert_fails("edited/all_reduce", "run", plan, *options, "--quiet")
        result = run_kiln("run", plan, *options, "--quiet")
        self.assertIn("outside", result.err)
        self.assertNotIn("another rank", result.err)


if __name__ == "__main__":
    unittest.main()
