"""`kiln run --draft`: the tokens are those without it, whatever guesses them. Guesses of several kinds, on the CPU and by the
kernels without a GPU."""

import json
import os
import unittest

from kilntest import CONFIG, SHAKESPEARE, SOURCE, KilnTest, ids, write_model

DRAFT = os.path.join(SOURCE, "graphs/shakespeare-draft")
SETTINGS = (["--greedy"], ["--seed", 5], ["--temperature", 1.5, "--top-k", 0], ["--top-p", 0.8, "--min-p", 0.05, "--seed", 9])


class Speculation(KilnTest):
    def results(self, *arguments, device="cpu"):
        return [{key: result.get(key) for key in ("tokens", "text", "finish_reason", "logits")}
                for result in self.run_json(*arguments, device=device)]

    def test_the_embedded_pair(self):
        prompts = ["--prompt", "ROMEO:", "--prompt", "To be, or not to be", "--tokens", "1,2,3,1,2,3", "--max-new-tokens", 12]
        for settings in SETTINGS:
            wanted = self.results(SHAKESPEARE, *prompts, *settings)
            for draft, count in (("ngram", 5), (DRAFT, "auto"), (DRAFT, 2), (SHAKESPEARE, 4)):
                self.assertEqual(self.results(SHAKESPEARE, *prompts, *settings, "--draft", draft, "--draft-tokens", count), wanted)

    def test_ends(self):
        for options in (["--stop", "th", "--max-new-tokens", 40], ["--stop", "e", "--max-new-tokens", 40], ["--max-new-tokens", 0],
                        ["--logits", "--max-new-tokens", 5]):
            run = [SHAKESPEARE, "--prompt", "ROMEO:", "--prompt", "A", "--seed", 2, *options]
            self.assertEqual(self.results(*run, "--draft", DRAFT, "--draft-tokens", 6), self.results(*run))
        model = write_model(self.path("model"), CONFIG)
        for overflow in ("stop", "slide"):
            run = [model, "--tokens", ids([1, 2, 3]), "--max-new-tokens", 60, "--overflow", overflow, "--seed", 2]
            for draft in ("ngram", model):
                self.assertEqual(self.results(*run, "--draft", draft), self.results(*run))

    def test_kernels(self):
        config = {**CONFIG, "n_layer": 1}
        model, other = write_model(self.path("model"), config), write_model(self.path("other"), config, seed=2)
        prompts = ["--tokens", ids([1, 2, 3]), "--tokens", 4, "--max-new-tokens", 9]
        for settings in SETTINGS[:2]:
            wanted = self.results(model, *prompts, *settings)
            for draft in ("ngram", model, other):
                self.assertEqual(self.results(model, *prompts, *settings, "--draft", draft, "--draft-tokens", 3, device="emulate"), wanted)

    def test_a_plan(self):
        model = write_model(self.path("model"), {**CONFIG, "n_layer": 1})
        plan, draft = self.path("plan"), self.path("draft.plan")
        self.kiln("compile", model, "--stage", "cuda", "--max-batch", 2, "--draft-tokens", 3, "--quiet", "-o", plan)
        self.kiln("compile", model, "--stage", "cuda", "--max-batch", 2, "--quiet", "-o", draft)
        run = [plan, "--weights", model, "--tokens", 5, "--max-new-tokens", 8, "--seed", 1]
        speculate = ["--draft", draft, "--draft-weights", model]
        result, = self.run_json(*run, *speculate, "--check", "reference", device="emulate")
        self.assertEqual(result["tokens"], self.results(*run)[0]["tokens"])
        # The plan's three guesses, not the usual four, and all of them right.
        self.assertEqual(result["speculation"], {"passes": 2, "drafted": 5, "accepted": 5, "drafted_by_place": [2, 2, 1],
                                                 "accepted_by_place": [2, 2, 1], "tokens_per_pass": 3.5})
        message = "plan is a plan that checks at most 3 guesses, got 4; compile the model again with --draft-tokens 4"
        self.assert_fails("error: --draft-tokens: " + message, "run", *run, *speculate, "--draft-tokens", 4, "--device", "emulate", code=2)
        message = "draft.plan is a plan that cannot check guesses; compile the model again with --draft-tokens 2"
        self.assert_fails("error: --draft: " + message, "run", draft, "--weights", model, "--tokens", 5, "--draft", "ngram",
                          "--max-new-tokens", 8, "--draft-tokens", 2, "--device", "emulate", code=2)
        self.assert_fails("error: --draft: no weights of draft.plan: give --draft-weights PATH", "run", *run, "--draft", draft,
                          "--device", "emulate", code=2)

    def test_bench(self):
        model = write_model(self.path("model"), {**CONFIG, "n_layer": 1})
        bench = ["bench", model, "--what", "speculation", "--device", "emulate", "--draft-tokens", 3, "--acceptance", "0,1"]
        for draft in ("ngram", model):
            rows = json.loads(self.kiln(*bench, "--draft", draft, "--length", 4, "-o", "json").out)["rows"]
            wrong, right = (row["tokens_per_pass"] for row in rows)
            self.assertEqual(wrong, 1)
            self.assertGreater(right, 2.5)
            self.assertNotIn("median_us", rows[0], "times of the emulated device mean nothing")
        self.assertIn("| 1 | 4 | 3 | 1.00 |", self.kiln(*bench, "--length", 4).out.decode())
        context = CONFIG["n_positions"]
        self.assert_fails(f"error: --length: expected prompts of 1 to {context - 2} tokens, got {context - 1}", *bench, "--length",
                          context - 1, code=2)
        self.assert_fails("error: --acceptance: expected --what speculation, got decode", "bench", model, "--acceptance", 1, code=2)
        self.assert_fails("error: -o: expected md or json with --what speculation, got csv", *bench, "-o", "csv", code=2)
        self.assert_fails("error: --acceptance: expected a number from 0 to 1, got '2'", *bench[:-1], 2, code=2)

    def test_counts(self):
        run = [SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 21, "--device", "cpu"]
        result = self.kiln("run", *run, "--draft", SHAKESPEARE)
        self.assertIn("speculation = 16 tokens drafted, 16 accepted, 5.00 tokens a pass\n", result.err)
        self.assertNotIn("speculation", self.kiln("run", *run).err)
        self.assertNotIn("speculation", self.run_json(*run[:-2])[0])

    def test_the_pair_agrees(self):
        """The greedy choices of the draft, and its choices with the same noise, are mostly those of the model."""
        with open(os.path.join(SOURCE, "tests/data/eval.txt")) as file:
            text = file.read()
        prompts = [option for i in range(4) for option in ("--prompt", text[400 * i:400 * i + 80])]
        for settings, least in ((["--greedy"], 0.7), (["--top-k", 0], 0.65)):
            results = self.run_json(SHAKESPEARE, *prompts, *settings, "--max-new-tokens", 40, "--draft", DRAFT, "--draft-tokens", 1)
            drafted = sum(result["speculation"]["drafted"] for result in results)
            accepted = sum(result["speculation"]["accepted"] for result in results)
            self.assertGreater(accepted / drafted, least)

    def test_drafts_that_do_not_fit(self):
        model = write_model(self.path("model"), CONFIG)
        other = write_model(self.path("other"), {**CONFIG, "vocab_size": CONFIG["vocab_size"] + 1})
        run = ["run", model, "--tokens", 1, "--max-new-tokens", 4, "--device", "cpu"]
        self.assert_fails(f"other: error: expected a draft with the model's vocabulary of {CONFIG['vocab_size']} tokens, got "
                          f"{CONFIG['vocab_size'] + 1}", *run, "--draft", other)
        self.assert_fails("error: --draft-tokens requires --draft", *run, "--draft-tokens", 3, code=2)
        self.assert_fails("error: --draft-weights requires --draft", *run, "--draft-weights", model, code=2)
        for value in ("0", "64", "x", "1.5"):
            self.assert_fails(f"error: --draft-tokens: expected auto or an integer from 1 to 63, got '{value}'", *run,
                              "--draft", "ngram", "--draft-tokens", value, code=2)


if __name__ == "__main__":
    unittest.main()
