"""All layers of a new token in one kernel, --decode persistent, on the emulated device."""

import json
import os
import unittest

from kilntest import KilnTest, ids, run_kiln

# 12 heads would take minutes: two clusters with a head each, and one that has only hidden channels.
MODEL = """vocab_size = 37
n_positions = 320
n_embd = 128
n_layer = 2
n_head = 2
n_inner = 192
activation_function = "gelu_new"
layer_norm_epsilon = 1e-5
tie_word_embeddings = true
"""
# A block's warps have 64 keys a turn, so that the long one takes four of them.
LONG, SHORT = ids([3 + i % 31 for i in range(230)]), "7"
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
        expected = self.run_json(self.model, "--random-weights", 1, *prompts, "--greedy", "--logits", "--max-new-tokens", 2)
        for dtype in ("bf16", "f16"):
            for row, reference in zip(self.decode(*prompts, "--max-new-tokens", 2, dtype=dtype), expected, strict=True):
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

    def test_warps_with_unequal_parts(self):
        """Three parts of a unit: two for the first warp, one for the second. Two rows of unequal length."""
        model = self.write("three.toml", MODEL.replace("n_embd = 128", "n_embd = 192").replace("n_head = 2", "n_head = 3"))
        strategy = "precision=bf16,decode=persistent{clusters=2,stages=2,ahead=1,warp_parts=2}"
        self.kiln("run", model, "--random-weights", 1, "--strategy", strategy, "--tokens", LONG, "--tokens", SHORT, "--greedy",
                  "--max-new-tokens", 2, "--device", "emulate", "--check", "reference")

    def test_clusters_whose_blocks_share_unequally(self):
        """Of 24 groups of 8 columns, four blocks have 5 and one has 4; three clusters of 5 blocks have a head each."""
        model = self.write("three.toml", MODEL.replace("n_embd = 128", "n_embd = 192").replace("n_head = 2", "n_head = 3"))
        for blocks, clusters, parts in ((5, 3, 2), (6, 2, 3), (7, 1, 1)):
            settings = f"blocks={blocks},clusters={clusters},stages=3,ahead=1,warp_parts={parts},logits_in_flight=1"
            self.kiln("run", model, "--random-weights", 1, "--strategy", f"precision=bf16,decode=persistent{{{settings}}}",
                      "--tokens", LONG, "--tokens", SHORT, "--greedy", "--max-new-tokens", 3, "--device", "emulate",
                      "--check", "reference")

    def test_a_model_that_the_kernel_does_not_run_is_refused(self):
        message = "error: fused @decode_layers: expected a model that the kernel decode_layers runs on sm_90a: 16-bit elements"
        self.assert_fails(message, "compile", self.model, "--decode", "persistent", "-o", self.path("plan"))
        odd = self.write("odd.toml", MODEL.replace("n_head = 2", "n_head = 4"))
        self.assert_fails(message, "compile", odd, "--dtype", "bf16", "--decode", "persistent", "-o", self.path("plan"))
        self.assert_fails(message, "compile", self.model, "--dtype", "bf16", "--decode", "persistent", "--max-batch", 9, "-o",
                          self.path("plan"))


class Generate(KilnTest):
    """Several tokens in one launch, which the kernel chooses itself: the same as a kernel for each product and @sample."""

    # The graph's sums are in another order, so that logits which are almost equal can change places.
    PROMPTS = ("--tokens", "3,4,5,6", "--tokens", "9")
    # Two clusters take half as long as three, of which one has no heads.
    STRATEGIES = {"persistent": "precision=bf16,decode=persistent{clusters=2}", "three": "precision=bf16,decode=persistent",
                  "graph": "precision=bf16,decode=graph"}

    def setUp(self):
        super().setUp()
        self.model = self.write("model.toml", MODEL)

    def generate(self, decode, *options, prompts=PROMPTS):
        options = ("--random-weights", 1, "--strategy", self.STRATEGIES[decode], *options)
        if "--max-new-tokens" not in options:
            options += ("--max-new-tokens", 18)
        form = () if "--input" in prompts else ("--json",)
        return self.kiln("run", self.model, *prompts, *options, *form, "--quiet", "--device", "emulate").objects()

    def tokens(self, *arguments, **named):
        return [row["tokens"] for row in self.generate(*arguments, **named)]

    def test_tokens_are_those_of_the_graph(self):
        for options in (("--greedy",), ("--seed", 5, "--top-k", 0), ("--seed", 5, "--top-k", 5),
                        ("--seed", 6, "--top-p", 0.8, "--temperature", 0.7)):
            options += ("--ignore-eos", "--check", "none")
            self.assertEqual(self.tokens("persistent", *options), self.tokens("graph", *options), options)

    def test_tokens_of_one_row_are_those_of_the_graph(self):
        """Greedily, blocks post the best of their own logits; otherwise the row's logits are read."""
        for options in (("--greedy",), ("--seed", 5, "--top-k", 5)):
            for prompt in self.PROMPTS[1], self.PROMPTS[3], ids([3 + i % 31 for i in range(311)]):
                everything = (*options, "--ignore-eos", "--overflow", "stop", "--check", "none")
                self.assertEqual(self.tokens("persistent", *everything, prompts=("--tokens", prompt)),
                                 self.tokens("graph", *everything, prompts=("--tokens", prompt)), everything)

    def test_one_row_ends_in_a_launch(self):
        """Choices that come behind the last one, of 16 in a launch, are none."""
        for count in (1, 2, 17):
            options = ("--greedy", "--check", "memory", "--max-new-tokens", count)
            self.assertEqual(self.tokens("persistent", *options, prompts=("--tokens", "9")),
                             self.tokens("graph", *options, prompts=("--tokens", "9")), count)

    def test_every_access_is_checked(self):
        tokens = self.tokens("persistent", "--seed", 5, "--max-new-tokens", 18, "--check", "memory")
        self.assertEqual(tokens, self.tokens("persistent", "--seed", 5, "--max-new-tokens", 18, "--check", "none"))

    def test_tokens_do_not_depend_on_the_order_of_blocks(self):
        options = ("--seed", 5, "--ignore-eos", "--check", "none", "--schedule")
        expected = self.tokens("three", *options, "in-order")
        for schedule in ("reversed", "random:1", "random:2"):
            self.assertEqual(self.tokens("three", *options, schedule), expected)

    def test_rows_end_in_a_launch(self):
        for count in (1, 2, 17):
            options = ("--seed", 5, "--check", "none", "--max-new-tokens", count)
            self.assertEqual(self.tokens("persistent", *options), self.tokens("graph", *options), count)

    def test_rows_are_refilled(self):
        """Five lines of unequal length for two rows: a line starts where another has ended in a launch."""
        lines = [{"tokens": [3 + i, 4], "max_new_tokens": count} for i, count in enumerate((5, 20, 3, 17, 1))]
        path = self.write("lines.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        prompts = ("--input", path, "--batch", 2)
        options = ("--seed", 5, "--ignore-eos", "--check", "none")
        self.assertEqual(self.tokens("persistent", *options, prompts=prompts), self.tokens("graph", *options, prompts=prompts))

    def test_one_row_of_a_plan_for_several(self):
        """A plan for two sequences whose bits may depend on their company: a row runs in one kernel when it is alone."""
        plan = self.path("both.plan")
        self.kiln("compile", self.model, "--dtype", "bf16", "--max-batch", 2, "--batch-invariant", 1, "-o", plan)
        for prompts in (self.PROMPTS[:2], self.PROMPTS):
            lines = [{"tokens": [3, 4, 5, 6], "max_new_tokens": 4}, {"tokens": [9], "max_new_tokens": 37}][:len(prompts) // 2]
            path = self.write("lines.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
            options = ("--input", path, "--seed", 5, "--ignore-eos", "--check", "none")
            rows = self.kiln("run", plan, "--random-weights", 1, *options, "--quiet", "--device", "emulate").objects()
            expected = self.tokens("graph", *options[2:], prompts=("--input", path))
            self.assertEqual([row["tokens"] for row in rows], expected)

    def test_a_row_ends_with_its_context(self):
        prompts = ("--tokens", ids([3 + i % 31 for i in range(311)]), "--tokens", "9")
        options = ("--seed", 5, "--ignore-eos", "--overflow", "stop", "--check", "none")
        self.assertEqual(self.tokens("persistent", *options, prompts=prompts), self.tokens("graph", *options, prompts=prompts))


class EditedKernel(KilnTest):
    """A kernel is dumped, edited, and run again."""

    family = None  # of the kernel
    options = ("--random-weights", 1, "--strategy", "precision=bf16,decode=persistent{clusters=2,stages=2,ahead=1}", "--tokens",
               SHORT, "--greedy", "--json", "--quiet", "--device", "emulate")

    def setUp(self):
        super().setUp()
        self.model = self.write("model.toml", MODEL)
        self.kiln("compile", self.model, "--max-batch", 1, "--stage", "cuda", "--quiet", "--strategy", self.options[3], "-o",
                  self.path("plan"))
        self.kiln("dump", self.path("plan"), "--what", "cuda", "-o", self.path("dump"))
        (self.kernel,) = (name for name in os.listdir(self.path("dump", "cuda")) if name.startswith(self.family))
        with open(self.path("dump", "cuda", self.kernel), encoding="utf-8") as file:
            self.text = file.read()

    def run_edited(self, old, new):
        self.assertEqual(self.text.count(old), 1, old)
        self.write(f"edited/{self.kernel}", self.text.replace(old, new))
        return run_kiln("run", self.model, *self.options, "--kernels-from", self.path("edited"))

    def check(self, old, new, message):
        result = self.run_edited(old, new)
        self.assertEqual(result.code, 1, result.err)
        self.assertRegex(result.err, rf"\.cu:\d+: error: kernel {self.family}__\w+: block \(\d+,0,0\): " + message)


class MistakesInGenerate(EditedKernel):
    family = "generate_tokens"
    options = (*EditedKernel.options, "--max-new-tokens", 4)
    never = r"thread \d+ waits here for a write that no thread makes"

    def test_a_token_that_nobody_waits_for(self):
        end = "(input.isFinished ? kFinished : 0))},\n         this->next"
        self.check(f"{end});", f"{end} + 1);", self.never)

    def test_a_block_that_does_not_tell_its_best(self):
        self.check("to < Config::kRanks)\n      this->ranks.post(", "to < Config::kRanks && block != 5)\n      this->ranks.post(",
                   self.never)

    def test_a_cache_that_nobody_announces(self):
        """Block 5 is of the first cluster, of 8 blocks."""
        self.check("this->lane() < Shape::kBlocks)\n      arrive(inBlock(", "this->lane() < 5)\n      arrive(inBlock(",
                   r"(.|\n)*thread 63 of block \(7,0,0\) waits here for 1 more arrival")

    def test_a_producer_that_is_not_told_of_a_token(self):
        self.check("arrive(this->shared.chosen);", "(void)this->shared.chosen;", r"(.|\n)*threads 64-95 wait here for 1 more arrival")

    def test_copies_that_the_kernel_does_not_wait_for(self):
        self.check("return step.end(", "return; step.end(", r"thread \d+ .*")


class MistakesInSampling(EditedKernel):
    family = "generate_tokens"
    options = tuple(option for option in EditedKernel.options if option != "--greedy") + ("--seed", 5, "--max-new-tokens", 4)

    def test_a_block_that_does_not_arrive(self):
        self.check("      arrive(this->mail.arrivals());\n", "      if (blockIndexX() != 5)\n        arrive(this->mail.arrivals());\n",
                   r"thread \d+ waits here for a write that no thread makes")


class Mistakes(EditedKernel):
    family = "decode_layers"
    options = (*EditedKernel.options, "--max-new-tokens", 2, "--logits")

    def test_rows_are_not_waited_for(self):
        self.check("await(shared.haveX, parityOf(kOfX), residualBytes());", "",
                   r"thread \d+ reads shared memory that a copy writes, without a wait for the copy's barrier")

    def test_sums_are_read_before_all_warps_have_put_them(self):
        last = "putSums(kPanelOf<kWhich> + i, product(x, this->template takeUnit<UnitKind::Wide>()));"
        self.check(f"{last}\n    meet();", last,
                   r"thread \d+ reads shared memory that thread \d+ has written since the last barrier")

    def test_a_stage_is_given_back_before_it_is_read(self):
        load = "loadUnit(parts[i], SharedAddress(shared.ring[next.stage]), offsets);"
        release = "        if (lane() == 0)\n          arriveBehindLoads(shared.empty[ring.stage], loaded);\n"
        self.assertEqual(self.text.count(release), 1)
        self.text = self.text.replace(release, "")
        early = "if (lane() == 0)\n          arriveBehindLoads<1>(shared.empty[next.stage], {0});\n        "
        self.check(load, early + load, r"thread \d+ (copies to|reads) shared memory that .* since the last barrier")

    def test_a_stamp_that_nobody_waits_for(self):
        self.check("cluster, quad(), col(i)), sums[i], next + 1);", "cluster, quad(), col(i)), sums[i], next + 2);",
                   r"thread \d+ waits here for a write that no thread makes")

    def test_bytes_that_nobody_sends(self):
        self.check("if (hasHeads() || isLast)\n      sendResidual();", "if (isLast)\n      sendResidual();",
                   r"(.|\n)*wait here for \d+ bytes, which no thread and no copy brings")

    def test_sums_that_are_read_too_early(self):
        """What is there then depends on the order of blocks, which the emulated device cannot know: results differ."""
        expected = run_kiln("run", self.model, *self.options).objects()[0]["logits"]
        result = self.run_edited("if (!complete)\n        ranks.retry(tries++);", "complete = true;")
        self.assertEqual(result.code, 0, result.err)
        self.assertNotEqual(result.objects()[0]["logits"], expected)


if __name__ == "__main__":
    unittest.main()
