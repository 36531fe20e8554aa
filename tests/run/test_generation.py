"""Properties of `kiln run` beyond the model: reproducible results, sampling options, the end of the context, JSON,
text."""

import os
import re
import unittest

from kilntest import CONFIG, SHAKESPEARE, SOURCE, KilnTest, ids, run_kiln, write_model

CONTEXT = CONFIG["n_positions"]
SAMPLED = ["--temperature", 1.3, "--top-k", 20, "--top-p", 0.9]


def without_timing(results):
    return [{key: value for key, value in result.items() if key != "timing"} for result in results]


class Generation(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))

    def generate(self, *arguments, **options):
        return without_timing(self.run_json(self.model, *arguments, **options))

    def test_runs_are_bitwise_equal(self):
        for options in (["--greedy"], [*SAMPLED, "--seed", 7]):
            runs = [self.generate("--tokens", "1,2,3", "--max-new-tokens", 12, "--logits", *options) for _ in range(3)]
            self.assertEqual(runs[0], runs[1])
            self.assertEqual(runs[0], runs[2])

    def test_results_do_not_depend_on_the_number_of_threads(self):
        cores = sorted(os.sched_getaffinity(0))
        arguments = ["--random-weights", 3, "--tokens", ids(range(5)), "--tokens", ids(range(900)), "--greedy", "--logits",
                     "--max-new-tokens", 3]
        one = without_timing(self.run_json(SHAKESPEARE, *arguments, preexec_fn=lambda: os.sched_setaffinity(0, cores[:1])))
        self.assertEqual(one, without_timing(self.run_json(SHAKESPEARE, *arguments)))

    def test_seeds(self):
        draw = lambda seed: self.generate("--tokens", 1, "--max-new-tokens", 20, "--temperature", 3, "--seed", seed)
        self.assertEqual(draw(5), draw(5))
        self.assertNotEqual(draw(5), draw(6))
        self.assertEqual(draw(2**64 - 1), draw(2**64 - 1))

    def test_random_weights(self):
        draw = lambda seed: self.generate("--random-weights", seed, "--tokens", 1, "--greedy", "--logits", "--max-new-tokens", 2)
        self.assertEqual(draw(1), draw(1))
        self.assertNotEqual(draw(1)[0]["logits"], draw(2)[0]["logits"])

    def test_top_k_of_one_is_greedy(self):
        greedy = self.generate("--tokens", "4,5", "--max-new-tokens", 10, "--greedy")
        self.assertEqual(self.generate("--tokens", "4,5", "--max-new-tokens", 10, "--top-k", 1), greedy)
        self.assertEqual(self.generate("--tokens", "4,5", "--max-new-tokens", 10, "--top-p", 1e-9), greedy)

    def test_a_temperature_of_zero_is_greedy(self):
        greedy = self.generate("--tokens", "4,5", "--max-new-tokens", 10, "--greedy", "--logits")
        for others in ([], ["--top-k", 0, "--top-p", 0.5, "--seed", 3]):
            self.assertEqual(self.generate("--tokens", "4,5", "--max-new-tokens", 10, "--temperature", 0, "--logits", *others), greedy)

    def test_a_batch_gives_what_its_rows_give_alone(self):
        prompts = [[1], list(range(20)), [3, 4, 5], [2] * 7]
        flags = [argument for prompt in prompts for argument in ("--tokens", ids(prompt))]
        for options in (["--greedy"], ["--greedy", "--overflow", "slide", "--max-new-tokens", 30]):
            options = ["--max-new-tokens", 4, *options] if "--max-new-tokens" not in options else options
            together = self.generate(*flags, "--logits", *options)
            alone = [self.generate("--tokens", ids(prompt), "--logits", *options)[0] for prompt in prompts]
            self.assertEqual(together, alone)

    def test_a_sampled_batch_does_not_depend_on_later_rows(self):
        options = ["--max-new-tokens", 8, *SAMPLED, "--seed", 3]
        alone = self.generate("--tokens", "1,2", *options)
        together = self.generate("--tokens", "1,2", "--tokens", "1,2", "--tokens", 9, *options)
        self.assertEqual(together[0], alone[0])
        self.assertNotEqual(together[1]["tokens"], alone[0]["tokens"], "rows draw numbers of their own")

    # ---- The end of the context ------------------------------------------------------------------------------------

    def test_overflow_error(self):
        self.assertEqual(len(self.generate("--tokens", 1, "--max-new-tokens", CONTEXT - 1)[0]["tokens"]), CONTEXT - 1)
        self.assert_fails("error: prompt 2: expected prompt and new tokens to fit in the context of 24, got 2 and 23", "run",
                          self.model, "--tokens", 1, "--tokens", "1,2", "--max-new-tokens", CONTEXT - 1)

    def test_overflow_stop(self):
        results = self.generate("--tokens", 1, "--tokens", ids([2] * CONTEXT), "--overflow", "stop", "--greedy",
                                "--max-new-tokens", 100)
        self.assertEqual([len(result["tokens"]) for result in results], [CONTEXT - 1, 0])
        self.assertEqual([result["finish_reason"] for result in results], ["length", "length"])

    def test_overflow_slide(self):
        """At the end of the context, its last half is evaluated again from position 0."""
        count = CONTEXT + 7
        (result,) = self.generate("--tokens", "1,2", "--overflow", "slide", "--greedy", "--logits", "--max-new-tokens", count)
        tokens = [1, 2, *result["tokens"]]
        self.assertEqual(len(result["tokens"]), count)
        # The token after a full context is still chosen from all of it; the next one is chosen from its last half.
        (full,) = self.generate("--tokens", ids(tokens[:CONTEXT]), "--overflow", "slide", "--greedy", "--max-new-tokens", 1)
        self.assertEqual(full["tokens"], [tokens[CONTEXT]])
        start = CONTEXT + 1 - CONTEXT // 2
        (half,) = self.generate("--tokens", ids(tokens[start : CONTEXT + 1]), "--greedy", "--logits", "--max-new-tokens", 3)
        self.assertEqual(half["tokens"], tokens[CONTEXT + 1 : CONTEXT + 4])
        self.assertEqual(half["logits"][0], result["logits"][CONTEXT - 1])

    def test_no_new_tokens(self):
        (result,) = self.generate("--tokens", "1,2", "--max-new-tokens", 0)
        self.assertEqual((result["tokens"], result["text"], result["finish_reason"]), ([], "", "length"))
        self.assertEqual(self.kiln("run", self.model, "--tokens", "1,2", "--max-new-tokens", 0).out, b"1 2 \n")

    # ---- Output ----------------------------------------------------------------------------------------------------

    def test_json(self):
        results = self.run_json(SHAKESPEARE, "--prompt", "ROMEO:", "--tokens", "1,2", "--greedy", "--max-new-tokens", 3)
        self.assertEqual(len(results), 2)
        for result in results:
            self.assertEqual(set(result), {"prompt_tokens", "tokens", "text", "finish_reason", "timing"})
            timing = result["timing"]
            steps = timing.pop("token_ms")
            self.assertEqual(len(steps), 2)
            self.assertEqual((timing["token_ms_min"], timing["token_ms_p50"], timing["token_ms_p99"], timing["token_ms_max"]),
                             (min(steps), max(steps), max(steps), max(steps)))
            self.assertTrue(all(value >= 0 for value in timing.values()))
        self.assertNotIn("logits", results[0])

    def test_numbers_have_as_few_digits_as_say_what_they_are(self):
        out = self.kiln("run", self.model, "--tokens", "1,2", "--greedy", "--max-new-tokens", 3, "--logits", "--json").out.decode()
        logits = re.findall(r"-?\d[-+.e\d]*", re.search(r'"logits":(\[\[.*?\]\])', out).group(1))
        self.assertEqual(len(logits), 3 * CONFIG["vocab_size"])
        self.assertLessEqual(max(len(text.split("e")[0].strip("-0.").replace(".", "")) for text in logits), 9, "digits of a float")
        timing = re.findall(r"\d[.e\d]*", re.search(r'"timing":\{(.*?)\}', out).group(1).replace("_p50", "").replace("_p90", "").replace("_p99", ""))
        self.assertEqual(len(timing), 9)
        self.assertLessEqual(max(len(text.partition(".")[2]) for text in timing), 6, "nanoseconds")

    def test_json_of_bytes_that_are_no_text(self):
        """Single bytes of UTF-8 sequences become U+FFFD; a character of several tokens is printed whole."""
        texts = [result["text"] for seed in range(2) for result in
                 self.run_json(SHAKESPEARE, "--random-weights", seed, "--tokens", "1", "--temperature", 50, "--top-k", 0,
                               "--max-new-tokens", 100, "--ignore-eos")]
        self.assertTrue(any("\ufffd" in text for text in texts))

    def test_text(self):
        command = ["run", SHAKESPEARE, "--prompt", "ROMEO:", "--greedy", "--max-new-tokens", 5]
        (result,) = self.run_json(*command[1:])
        echoed = self.kiln(*command)
        self.assertEqual(echoed.out.decode(), "ROMEO:" + result["text"] + "\n")
        self.assertIn("tokens per second", echoed.err)
        quiet = self.kiln(*command, "--no-echo", "--quiet")
        self.assertEqual((quiet.out.decode(), quiet.err), (result["text"] + "\n", ""))

    def test_prompts_from_files_and_standard_input(self):
        file = self.write("prompt.txt", "ROMEO:")
        wanted = self.run_json(SHAKESPEARE, "--prompt", "ROMEO:", "--max-new-tokens", 0)[0]["prompt_tokens"]
        for arguments, stdin in ((["--prompt-file", file], b""), (["--prompt-file", "-"], b"ROMEO:"),
                                 (["--tokens", "-"], ids(wanted).encode() + b"\n"), (["--tokens", " ".join(map(str, wanted))], b"")):
            (result,) = self.run_json(SHAKESPEARE, *arguments, "--max-new-tokens", 0, stdin=stdin)
            self.assertEqual(result["prompt_tokens"], wanted)

    def test_prompts_in_the_order_given(self):
        """Their places number the sequences, of whatever kind they are."""
        file = self.write("prompt.txt", "B")
        prompts = [["--tokens", 5], ["--prompt", "A"], ["--prompt-file", file], ["--tokens=6"], ["--prompt="], ["--prompt", "C"], ["--tokens", "-"]]
        tokens = [[5], [32], [33], [6], [1008], [34], [7]]
        for order in ((0, 1, 2, 3, 4, 5, 6), (6, 5, 2, 4, 1, 0, 3)):
            results = self.run_json(SHAKESPEARE, *(part for i in order for part in prompts[i]), "--max-new-tokens", 0, stdin=b"7")
            self.assertEqual([result["prompt_tokens"] for result in results], [tokens[i] for i in order])

    def test_special_tokens_of_prompts(self):
        """They count as ordinary text unless --special is given."""
        text = "A<|endoftext|>B"
        file = self.write("prompt.txt", text)
        plain, special = ([self.kiln("tokenize", SHAKESPEARE, "--json", "--text", text, *flags).objects()[0]["tokens"]
                           for flags in ([], ["--special"])])
        self.assertNotIn(1008, plain)
        self.assertEqual(special, [32, 1008, 33])
        for prompt in (["--prompt", text], ["--prompt-file", file]):
            for wanted, flags in ((plain, []), (special, ["--special"])):
                (result,) = self.run_json(SHAKESPEARE, *prompt, *flags, "--max-new-tokens", 0)
                self.assertEqual(result["prompt_tokens"], wanted)

    def test_generation_from_nothing(self):
        """Generation begins with the end-of-text token, which is not printed."""
        end = 1008
        (wanted,) = self.run_json(SHAKESPEARE, "--tokens", end, "--greedy", "--max-new-tokens", 6)
        for prompt in ([], ["--prompt="], ["--prompt-file", "/dev/null"], ["--tokens="]):
            (result,) = self.run_json(SHAKESPEARE, *prompt, "--greedy", "--max-new-tokens", 6)
            self.assertEqual(result["prompt_tokens"], [end])
            self.assertEqual(result["tokens"], wanted["tokens"])
            shown = self.kiln("run", SHAKESPEARE, *prompt, "--greedy", "--max-new-tokens", 6, "--quiet").out.decode()
            self.assertEqual(shown, wanted["text"] + "\n")
        # Also beside prompts that are not empty, and for a model without a vocabulary.
        results = self.run_json(SHAKESPEARE, "--prompt=", "--prompt", "A", "--greedy", "--max-new-tokens", 2)
        self.assertEqual([result["prompt_tokens"] for result in results], [[end], [32]])
        model = write_model(self.path("eos"), {**CONFIG, "eos_token_id": [7, 3]})
        self.assertEqual(self.run_json(model, "--max-new-tokens", 1)[0]["prompt_tokens"], [7])

    def test_stop_strings(self):
        (free,) = self.run_json(SHAKESPEARE, "--prompt", "First Citizen:", "--greedy", "--max-new-tokens", 30)
        stop = free["text"][5:9]
        (result,) = self.run_json(SHAKESPEARE, "--prompt", "First Citizen:", "--greedy", "--max-new-tokens", 30, "--stop", stop)
        self.assertEqual((result["text"], result["finish_reason"]), (free["text"].split(stop)[0], "stop"))

    def test_end_of_text(self):
        """Makes the first token of greedy decoding the end-of-text token."""
        first = self.generate("--tokens", 1, "--greedy", "--max-new-tokens", 1)[0]["tokens"][0]
        for eos in (first, [28, first] if first != 28 else [0, first]):
            model = write_model(self.path("eos"), {**CONFIG, "eos_token_id": eos})
            arguments = ["--tokens", 1, "--greedy", "--max-new-tokens", 5]
            (result,) = self.run_json(model, *arguments)
            self.assertEqual((result["tokens"], result["finish_reason"]), ([first], "eos"))
            (result,) = self.run_json(model, *arguments, "--ignore-eos")
            self.assertEqual((len(result["tokens"]), result["finish_reason"]), (5, "length"))

    def test_a_closed_pipe_is_no_success(self):
        result = run_kiln("run", self.model, "--tokens", 1, "--max-new-tokens", 5, preexec_fn=lambda: os.close(1))
        self.assertEqual(result.code, 1)
        self.assertIn("error: standard output: cannot write", result.err)

    def test_a_full_disk_behind_standard_output(self):
        for command in (["run", SHAKESPEARE, "--prompt", "a", "--max-new-tokens", "2", "--json"],
                        ["tokenize", SHAKESPEARE, "--text", "a"], ["--version"], ["run", "--help"],
                        ["compile", self.model, "--stage", "graph"],
                        ["eval", SHAKESPEARE, "--text", os.path.join(SOURCE, "tests/data/eval.txt"), "--quiet"]):
            with open("/dev/full", "wb") as full:
                result = run_kiln(*command, preexec_fn=lambda: os.dup2(full.fileno(), 1))
            self.assertEqual(result.code, 1, command)
            self.assertIn("error: standard output: cannot write: No space left on device", result.err)


if __name__ == "__main__":
    unittest.main()
