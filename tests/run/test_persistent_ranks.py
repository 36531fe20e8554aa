"""One kernel for all layers of a model that ranks share, --decode persistent --ranks N, on emulated devices."""

import os
import unittest

from kilntest import KilnTest, ids, run_kiln

# Two clusters for each of two ranks.
MODEL = """vocab_size = 37
n_positions = 320
n_embd = 128
n_layer = 2
n_head = 2
n_inner = 256
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
"""
LONG, SHORT = ids([3 + i % 31 for i in range(100)]), "30"
TOLERANCE = 0.02  # of bf16, where logits are up to 1


class PersistentRanks(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("model.toml", MODEL)

    def decode(self, decode, *arguments, model=None, ranks=2):
        return self.run_json(model or self.model, "--random-weights", 1, "--dtype", "bf16", "--decode", decode, "--ranks", ranks,
                             *arguments, device="emulate")

    def assert_near_the_reference(self, model, ranks):
        """Of prompts of unequal length. Tokens of one rank alone and of all are in every share of the vocabulary."""
        options = ("--tokens", LONG, "--tokens", SHORT, "--greedy", "--logits", "--max-new-tokens", 3)
        expected = self.run_json(model, "--random-weights", 1, *options)
        for row, reference in zip(self.decode("persistent", *options, model=model, ranks=ranks), expected, strict=True):
            self.assertEqual(row["tokens"], reference["tokens"])
            for logits, others in zip(row["logits"], reference["logits"], strict=True):
                for one, other in zip(logits, others, strict=True):
                    self.assertAlmostEqual(one, other, delta=TOLERANCE)

    def test_logits_are_those_of_the_reference(self):
        self.assert_near_the_reference(self.model, 2)

    def test_heads_that_ranks_do_not_divide(self):
        self.assert_near_the_reference(self.write("three.toml", MODEL.replace("n_embd = 128", "n_embd = 192").replace("n_head = 2", "n_head = 3")), 2)

    def test_four_ranks(self):
        self.assert_near_the_reference(self.write("four.toml", MODEL.replace("n_embd = 128", "n_embd = 256").replace("n_head = 2", "n_head = 4").replace("n_layer = 2", "n_layer = 1")), 4)

    def test_tokens_are_those_of_the_graph_in_any_order(self):
        """Several tokens in a launch, chosen on each rank."""
        options = ("--tokens", "3,4,5,6", "--tokens", "9", "--seed", 5, "--max-new-tokens", 10, "--ignore-eos", "--check", "none")
        expected = [row["tokens"] for row in self.decode("graph", *options)]
        for schedule in ("in-order", "random:1"):
            tokens = [row["tokens"] for row in self.decode("persistent", *options, "--schedule", schedule)]
            self.assertEqual(tokens, expected, schedule)

    def test_greedy_tokens_are_those_of_the_graph_in_any_order(self):
        """Of one sequence: blocks of all ranks post the best of their logits."""
        four = self.write("four.toml", MODEL.replace("n_embd = 128", "n_embd = 256").replace("n_head = 2", "n_head = 4").replace("n_layer = 2", "n_layer = 1"))
        options = ("--tokens", "3,4,5,6", "--greedy", "--max-new-tokens", 6, "--ignore-eos", "--check", "none")
        for model, ranks, schedules in ((self.model, 2, ("in-order", "random:1")), (four, 4, ("random:1",))):
            (expected,) = self.decode("graph", *options, model=model, ranks=ranks)
            for schedule in schedules:
                (row,) = self.decode("persistent", *options, "--schedule", schedule, model=model, ranks=ranks)
                self.assertEqual(row["tokens"], expected["tokens"], (ranks, schedule))

    def test_processes(self):
        options = ("--tokens", "3,4,5,6", "--seed", 5, "--max-new-tokens", 5)
        expected = [row["tokens"] for row in self.decode("persistent", *options)]
        self.assertEqual([row["tokens"] for row in self.decode("persistent", *options, "--processes")], expected)


class Mistakes(KilnTest):
    """A kernel is dumped, edited, and run again."""

    options = ("--random-weights", 1, "--dtype", "bf16", "--decode", "persistent", "--ranks", 2, "--tokens", SHORT, "--greedy",
               "--json", "--quiet", "--device", "emulate")

    def run_edited(self, old, new, prefix="decode_layers", options=("--max-new-tokens", 2, "--logits")):
        """Runs the kernel whose name starts with `prefix`, edited; self.expected is what it gives as it is."""
        model = self.write("model.toml", MODEL)
        self.kiln("compile", model, "--max-batch", 1, "--stage", "cuda", "--quiet", *self.options[2:8], "-o", self.path("plan"))
        self.kiln("dump", self.path("plan"), "--what", "cuda", "-o", self.path("dump"))
        (kernel,) = (name for name in os.listdir(self.path("dump", "cuda")) if name.startswith(prefix))
        with open(self.path("dump", "cuda", kernel), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count(old), 1, old)
        self.write(f"edited/{kernel}", text.replace(old, new))
        (self.expected,) = run_kiln("run", model, *self.options, *options).objects()
        return run_kiln("run", model, *self.options, *options, "--kernels-from", self.path("edited"))

    def test_a_sum_of_one_rank_counts_twice(self):
        result = self.run_edited("source / kSources * Shape::kClusters + source % kSources", "source % kSources")
        self.assertEqual(result.code, 0, result.err)
        self.assertNotEqual(result.objects()[0]["logits"], self.expected["logits"])

    def test_the_best_of_a_share_as_if_it_were_the_first(self):
        result = self.run_edited("u32(firstOfShare() + col)", "u32(col)", "generate_tokens", ("--max-new-tokens", 3, "--ignore-eos"))
        self.assertEqual(result.code, 0, result.err)
        self.assertNotEqual(result.objects()[0]["tokens"], self.expected["tokens"])

    def test_the_best_of_the_first_rank_alone(self):
        """The best token is in the share of the second one, whose blocks are not waited for either: some may get bytes of
        the next token too early."""
        result = self.run_edited("kBlocks = Config::kRanks * Shape::kAllBlocks", "kBlocks = Shape::kAllBlocks", "generate_tokens",
                                 ("--max-new-tokens", 3, "--ignore-eos"))
        if result.code == 0:
            self.assertNotEqual(result.objects()[0]["tokens"], self.expected["tokens"])
        else:
            self.assertRegex(result.err, r"sends 16 bytes to a barrier that expects 0 more; arriveExpecting\(\) comes first")

    def test_logits_that_are_written_for_one_rank(self):
        """The others have what was there before."""
        result = self.run_edited("store(logits_out + (i64(row)", "store(logits_out[rank] + (i64(row)")
        if result.code == 0:
            self.assertNotEqual(result.objects()[0]["logits"], self.expected["logits"])
        else:
            self.assertIn("logits", result.err)

    def test_a_rank_that_ends_says_why(self):
        result = self.run_edited("  step.begin(Token{tokens}, Position{positions});",
                                 "  step.begin(Token{tokens + (rank == 1 ? i64(1) << 20 : 0)}, Position{positions});")
        self.assertEqual(result.code, 1, result.err)
        self.assertIn("outside", result.err)
        self.assertNotIn("another rank", result.err)


if __name__ == "__main__":
    unittest.main()
