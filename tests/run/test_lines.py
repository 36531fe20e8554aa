"""`kiln run --input`: many prompts as lines of JSON. Each result is what its line gives alone, whatever runs beside it; a
run that was killed goes on where it was."""

import fcntl
import json
import math
import os
import random
import signal
import subprocess
import time
import unittest

from kilntest import CONFIG, KILN, SHAKESPEARE, TIMEOUT, KilnTest, ids, run_kiln, write_model

VOCABULARY, CONTEXT = CONFIG["vocab_size"], CONFIG["n_positions"]
OPTIONS = ({"temperature": 1.3, "top_k": 5}, {"top_p": 0.8}, {"greedy": True}, {"min_p": 0.1, "ignore_eos": True},
           {"temperature": 2, "top_k": 0, "overflow": "slide", "max_new_tokens": 40}, {"temperature": 0})


def some_lines(count, seed=1):
    """Prompts of unequal length with options of their own."""
    numbers = random.Random(seed)
    for i in range(count):
        line = {"tokens": [numbers.randrange(VOCABULARY) for _ in range(numbers.randrange(1, 13))],
                "max_new_tokens": numbers.randrange(12), **OPTIONS[i % len(OPTIONS)]}
        if not line.get("greedy"):
            line["seed"] = numbers.randrange(1 << 64)
        yield line


def text_of(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def flags_of(line):
    """The command line that says the same."""
    flags = []
    for key, value in line.items():
        flag = "--" + key.replace("_", "-")
        flags += [flag, ids(value)] if key == "tokens" else [flag] if value is True else [flag, value]
    return flags


class Lines(KilnTest):
    def setUp(self):
        super().setUp()
        self.model = write_model(self.path("model"))
        self.output = self.path("out.jsonl")

    def run_lines(self, text, *arguments, device="cpu"):
        """Standard output, for a text as standard input."""
        result = self.kiln("run", self.model, "--device", device, "--quiet", "--input", "-", *arguments, stdin=text.encode())
        return result.out.decode()

    def read_output(self):
        with open(self.output) as file:
            return file.read()


class Results(Lines):
    def test_each_is_as_if_alone(self):
        lines = list(some_lines(400))
        one = self.run_lines(text_of(lines))
        results = [json.loads(line) for line in one.splitlines()]
        self.assertEqual([result["prompt_tokens"] for result in results], [line["tokens"] for line in lines])
        for batch in (2, 7, 64):
            self.assertEqual(self.run_lines(text_of(lines), "--batch", batch), one, batch)
        for line, result in list(zip(lines, results))[:24]:
            alone = self.run_json(self.model, *flags_of(line))[0]
            del alone["timing"]
            self.assertEqual(result, alone)
        # A line's place has no effect either.
        order = list(range(len(lines)))
        random.Random(2).shuffle(order)
        shuffled = self.run_lines(text_of(lines[i] for i in order), "--batch", 5).splitlines()
        self.assertEqual(shuffled, [one.splitlines()[i] for i in order])

    def test_on_kernels_they_are_as_if_alone(self):
        text = text_of(some_lines(20))
        one = self.run_lines(text, "--batch", 1, "--check", "none", device="emulate")
        self.assertEqual(self.run_lines(text, "--batch", 5, "--check", "none", device="emulate"), one)
        text = text_of(some_lines(100))
        self.assertEqual(self.run_lines(text, "--batch", 5, "--draft", "ngram"), self.run_lines(text))

    def test_options_of_the_command_are_the_defaults(self):
        lines = [{"tokens": [1, 2]}, {"tokens": [1, 2], "max_new_tokens": 3}, {"tokens": [1, 2], "temperature": 1.5},
                 {"tokens": [1, 2], "seed": 5}, {"tokens": [1, 2], "greedy": False}]
        results = [json.loads(line)["tokens"] for line in self.run_lines(text_of(lines), "--greedy", "--max-new-tokens", 9).splitlines()]
        alone = lambda *flags: self.run_json(self.model, "--tokens", "1,2", *flags)[0]["tokens"]
        self.assertEqual(results[0], alone("--greedy", "--max-new-tokens", 9))
        self.assertEqual(results[1], results[0][:3])
        self.assertEqual(results[2], alone("--temperature", 1.5, "--max-new-tokens", 9))
        self.assertEqual(results[3], alone("--seed", 5, "--max-new-tokens", 9))
        self.assertEqual(results[4], alone("--max-new-tokens", 9))

    def test_samples_are_sequences_of_their_own(self):
        flags = ["--temperature", 2, "--max-new-tokens", 8, "--seed", 4]
        alone = self.run_json(self.model, "--tokens", "3,4", "--tokens", "3,4", "--tokens", "3,4", *flags)
        self.assertEqual(len({ids(result["tokens"]) for result in alone}), 3)
        for text, more in (('{"tokens":[3,4],"n":3}', []), ('{"tokens":[3,4]}', ["--n", 3])):
            results = [json.loads(line) for line in self.run_lines(text, "--batch", 2, *flags, *more).splitlines()]
            self.assertEqual([result["tokens"] for result in results], [result["tokens"] for result in alone])
            self.assertEqual([result["sample"] for result in results], [0, 1, 2])
        together = self.run_json(self.model, "--tokens", "3,4", "--n", 3, *flags)
        self.assertEqual([result["tokens"] for result in together], [result["tokens"] for result in alone])

    def test_log_probabilities(self):
        line = {"tokens": [1, 2], "temperature": 1.7, "top_k": 9, "seed": 3, "max_new_tokens": 6}
        wanted = self.run_json(self.model, "--logits", *flags_of(line))[0]
        lines = [line, {**line, "logprobs": 0}, {**line, "logprobs": 4}, {**line, "logprobs": 1000}]
        results = [json.loads(text) for text in self.run_lines(text_of(lines), "--batch", 3).splitlines()]
        self.assertNotIn("logprobs", results[0])
        for result, count in zip(results[1:], (0, 4, VOCABULARY)):
            self.assertEqual(result["tokens"], wanted["tokens"])
            self.assertEqual([entry["token"] for entry in result["logprobs"]], wanted["tokens"])
            for entry, logits in zip(result["logprobs"], wanted["logits"], strict=True):
                total = math.log(sum(map(math.exp, logits)))
                best = sorted(range(VOCABULARY), key=lambda token: (-logits[token], token))[:count]
                self.assertEqual([top["token"] for top in entry["top"]], best)
                for got in (entry, *entry["top"]):
                    self.assertAlmostEqual(got["logprob"], logits[got["token"]] - total, places=5)
        self.assertEqual(self.run_json(self.model, "--logprobs", 4, *flags_of(line))[0]["logprobs"], results[2]["logprobs"])

    def test_log_probabilities_of_the_prompt(self):
        prompt = [7, 3, 3, 11, 0, 5]
        # A token of the prompt is as probable as the model says after the tokens in front of it.
        before = [self.run_json(self.model, "--tokens", ids(prompt[:i]), "--greedy", "--max-new-tokens", 1, "--logits")[0]["logits"][0]
                  for i in range(1, len(prompt))]
        line = {"tokens": prompt, "temperature": 1.7, "seed": 3, "max_new_tokens": 5, "logprobs": 3}
        lines = [line, {**line, "echo": True}, {"tokens": [4], "logprobs": 1, "echo": True, "max_new_tokens": 1},
                 {**line, "echo": True, "max_new_tokens": 0}, {"tokens": [1, 2, 3, 4, 5, 6, 7, 8], "max_new_tokens": 7, "greedy": True},
                 {**line, "echo": False, "logprobs": 0}]
        for device, batch in (("cpu", 2), ("cpu", 1), ("emulate", 3)):
            plain, echoed, one, none, other, _ = results = [
                json.loads(text) for text in self.run_lines(text_of(lines), "--batch", batch, device=device).splitlines()]
            for result in (plain, other, results[5]):
                self.assertNotIn("prompt_logprobs", result)
            self.assertEqual(echoed.pop("prompt_logprobs"), none["prompt_logprobs"])
            self.assertEqual(echoed, plain, "echo changes nothing else")
            self.assertEqual((one["prompt_logprobs"], none["tokens"], none["finish_reason"]), ([None], [], "length"))
            self.assertEqual(len(other["tokens"]), 7)
            self.assertIsNone(none["prompt_logprobs"][0])
            for entry, token, logits in zip(none["prompt_logprobs"][1:], prompt[1:], before, strict=True):
                total = math.log(sum(map(math.exp, logits)))
                best = sorted(range(VOCABULARY), key=lambda token: (-logits[token], token))[:3]
                self.assertEqual((entry["token"], [top["token"] for top in entry["top"]]), (token, best))
                for got in (entry, *entry["top"]):
                    self.assertAlmostEqual(got["logprob"], logits[got["token"]] - total, places=4)
        alone = self.run_json(self.model, "--echo", *flags_of(lines[0]))
        drafted = self.run_json(self.model, "--echo", "--draft", "ngram", *flags_of(lines[0]))
        self.assertEqual((drafted[0]["tokens"], drafted[0]["prompt_logprobs"]), (alone[0]["tokens"], alone[0]["prompt_logprobs"]))

    def test_log_probabilities_as_text(self):
        flags = ["--device", "cpu", "--quiet", "--greedy", "--max-new-tokens", 2, "--logprobs", 2]
        (found,) = self.run_json(SHAKESPEARE, "--prompt", "ROMEO:|", "--echo", *flags[3:])
        rows = [line.split(" | ") for line in
                self.kiln("run", SHAKESPEARE, "--prompt", "ROMEO:|", "--echo", *flags).out.decode().splitlines()]
        self.assertEqual([row[0] for row in rows], ["| token", "|---|---|---|---|", *(f"| {t}" for t in found["prompt_tokens"] + found["tokens"])])
        self.assertEqual(rows[2][1:], ['"ROMEO"', "", " |"])
        entries = found["prompt_logprobs"][1:] + found["logprobs"]
        for row, entry in zip(rows[3:], entries, strict=True):
            self.assertEqual(row[2], f"{entry['logprob']:.4f}")
            for top in entry["top"]:
                self.assertRegex(row[3], rf'{top["token"]} ".*" {top["logprob"]:.4f}')
        self.assertEqual(rows[4][1], r'"\|"')
        # Without --echo, and without a vocabulary, for two sequences.
        (alone,) = self.run_json(self.model, "--tokens", "1,2", *flags[3:])
        shown = self.kiln("run", self.model, "--tokens", "1,2", "--n", 2, *flags).out.decode()
        table = "| token | text | logprob | most probable |\n|---|---|---|---|\n" + "".join(
            f"| {entry['token']} |  | {entry['logprob']:.4f} | " + ", ".join(f"{top['token']} {top['logprob']:.4f}" for top in entry["top"]) + " |\n"
            for entry in alone["logprobs"])
        self.assertEqual(shown, table + "\n" + table)
        self.assert_fails("--echo requires --logprobs", "run", self.model, "--tokens", 1, "--echo", code=2)
        self.assert_fails("--logprobs excludes --no-echo", "run", self.model, "--tokens", 1, "--no-echo", "--logprobs", 1, code=2)
        self.assert_fails(":25: error: echo: expected logprobs beside it", "run", self.model, "--input", "-", "--device", "cpu",
                          stdin=b'{"tokens": [1], "echo": true}')

    def test_penalties_and_biases(self):
        line = {"tokens": [1, 2], "greedy": True, "max_new_tokens": 12}
        lines = [line, {**line, "logit_bias": {"5": 1000}}, {**line, "logit_bias": {str(i): -1000 for i in range(27)}, "logprobs": 1},
                 {**line, "presence_penalty": 1000}, {**line, "repetition_penalty": 100, "logit_bias": {str(i): -50 for i in range(29)}},
                 {**line, "presence_penalty": 0, "repetition_penalty": 1, "logit_bias": {}}]
        results = [json.loads(text) for text in self.run_lines(text_of(lines), "--batch", 2).splitlines()]
        plain = [result["tokens"] for result in results]
        self.assertEqual(plain[1], [5] * 12)
        self.assertLessEqual(set(plain[2]), {27, 28})
        self.assertIn("logprobs", results[2])
        self.assertEqual(len(set(plain[3])), 12, "no token comes twice")
        self.assertEqual(len({1, 2, *plain[4]}), 14, "no token of the prompt comes, either")
        self.assertEqual(plain[5], plain[0])
        flags = ["--tokens", "1,2", "--greedy", "--max-new-tokens", 12]
        alone = lambda *more: self.run_json(self.model, *flags, *more)[0]["tokens"]
        self.assertEqual(alone("--presence-penalty", 1000), plain[3])
        self.assertEqual(alone("--presence-penalty", 1000, "--draft", "ngram"), plain[3])
        self.assertEqual(alone(*(f"--logit-bias={i}:-1000" for i in range(27))), plain[2])
        self.assert_fails("--logit-bias: expected token ids in 0..28, got 29", "run", self.model, "--device", "cpu", *flags, "--logit-bias", "29:1", code=2)
        for bad in ("x", "3", "3:x", "-1:2", "3:1e9"):
            self.assert_fails("--logit-bias: expected a token id and a number from -1000 to 1000", "run", self.model, *flags, f"--logit-bias={bad}", code=2)

    def test_ids_come_back_and_empty_lines_do_not_count(self):
        text = '\n{"tokens":[1],"id":{"b":[1.5,null]}}\r\n  \n{"tokens":[2],"id":18446744073709551615}\n{"tokens":[3]}'
        results = [json.loads(line) for line in self.run_lines(text, "--max-new-tokens", 1).splitlines()]
        self.assertEqual([result.get("id") for result in results], [{"b": [1.5, None]}, 2**64 - 1, None])
        self.assertEqual(self.run_lines(""), "")

    def test_results_that_cannot_be_written(self):
        """The first one ends the run, and not the last."""
        with open("/dev/full", "wb") as full:
            process = subprocess.run([KILN, "run", self.model, "--device", "cpu", "--input", "-"], stdout=full, stderr=subprocess.PIPE,
                                     input=text_of(some_lines(20)).encode())
        self.assertEqual((process.returncode, process.stderr), (1, b"error: standard output: cannot write: No space left on device\n"))

    def test_text(self):
        lines = [{"prompt": "ROMEO:"}, {"prompt": "", "stop": "\n"}, {"prompt": "A\u00e9<|endoftext|>", "special": True},
                 {"prompt": "A\u00e9<|endoftext|>", "stop": ["zzz", " "]}]
        flags = ["--greedy", "--max-new-tokens", 4]
        self.model = SHAKESPEARE
        results = [json.loads(line) for line in self.run_lines(text_of(lines), *flags).splitlines()]
        for line, result in zip(lines, results):
            stops = line.get("stop", [])
            more = [part for stop in ([stops] if isinstance(stops, str) else stops) for part in ("--stop", stop)]
            alone = self.run_json(SHAKESPEARE, "--prompt", line["prompt"], *flags, *more, *["--special"][:line.get("special", False)])[0]
            del alone["timing"]
            self.assertEqual(result, alone)
        self.assertNotEqual(results[2]["prompt_tokens"], results[3]["prompt_tokens"])


class Resume(Lines):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.jsonl", text_of(some_lines(60)))
        self.arguments = ["run", self.model, "--device", "cpu", "--quiet", "--input", self.input, "--output", self.output,
                          "--batch", 4]
        self.kiln(*self.arguments)
        self.whole = self.read_output()

    def test_a_file_that_was_cut_anywhere(self):
        places = random.Random(3).sample(range(len(self.whole)), 20)
        newline = self.whole.index("\n")
        for end in (0, 1, newline, newline + 1, len(self.whole) - 1, len(self.whole), *places):
            self.write("out.jsonl", self.whole[:end])
            self.assertEqual(self.kiln(*self.arguments, "--resume").out, b"")
            self.assertEqual(self.read_output(), self.whole, end)
        os.remove(self.output)
        self.kiln(*self.arguments, "--resume")
        self.assertEqual(self.read_output(), self.whole)

    def test_killed_runs(self):
        self.input = self.arguments[6] = self.write("many.jsonl", text_of(some_lines(4000)))
        os.remove(self.output)
        self.kiln(*self.arguments)
        whole = self.read_output()
        os.remove(self.output)
        kills, turns = 0, 0
        numbers = random.Random(5)
        while turns < 200:
            turns += 1
            before = os.path.getsize(self.output) if os.path.exists(self.output) else 0
            process = subprocess.Popen([KILN, *map(str, self.arguments), "--resume"], stderr=subprocess.PIPE)
            # Kill it when it has written something more, wherever it then is.
            enough = before + numbers.randrange(1, len(whole) // 4)
            end = time.monotonic() + TIMEOUT
            while process.poll() is None and time.monotonic() < end:
                if os.path.exists(self.output) and os.path.getsize(self.output) >= enough:
                    process.send_signal(signal.SIGKILL)
                    break
            errors = process.communicate(timeout=TIMEOUT)[1]
            if process.returncode == 0:
                break
            self.assertEqual(process.returncode, -signal.SIGKILL, errors)
            self.assertTrue(whole.startswith(self.read_output()), "what is there is the beginning of the whole")
            kills += 1
        self.assertGreaterEqual(kills, 2)
        self.assertEqual(self.read_output(), whole)

    def test_a_finished_file_stays(self):
        self.assertIn("60 results were there", self.kiln(*[a for a in self.arguments if a != "--quiet"], "--resume").err)
        self.assertEqual(self.read_output(), self.whole)

    def test_an_input_without_lines(self):
        """The file of its results is there, without any."""
        for text, more in (("", []), ("\n \n", []), ("", ["--resume"])):
            os.remove(self.output)
            self.write("in.jsonl", text)
            self.kiln(*self.arguments, *more)
            self.assertEqual(self.read_output(), "")

    def test_a_file_that_another_process_is_writing(self):
        for before, more in ((self.whole, ["--resume"]), ("", ["--resume"]), ("", [])):
            self.write("out.jsonl", before)
            with open(self.output) as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                self.assert_fails("out.jsonl: error: another process is writing it", *self.arguments, *more)
            self.assertEqual(self.read_output(), before)
        os.remove(self.output)
        first, second = (subprocess.Popen([KILN, *map(str, self.arguments)], stderr=subprocess.PIPE) for _ in range(2))
        errors = first.communicate(timeout=TIMEOUT)[1] + second.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(sorted((first.returncode, second.returncode)), [0, 1], errors)
        self.assertEqual(self.read_output(), self.whole)

    def test_files_that_do_not_belong_to_the_input(self):
        refuse = lambda message, *more: self.assert_fails(message, *self.arguments, *more)
        refuse("out.jsonl: error: expected no file or an empty one, got ")
        first, second, rest = self.whole.split("\n", 2)
        self.write("out.jsonl", first + "\n" + rest)
        refuse("error: prompt_tokens: expected those of line 2 of the input, got others", "--resume")
        self.write("out.jsonl", self.whole + first + "\n")
        refuse("out.jsonl: error: expected at most a line for each of 60 results, got more", "--resume")
        self.write("out.jsonl", first + "\nnonsense\n" + rest)
        refuse("out.jsonl:2:3: error: not valid JSON", "--resume")
        self.write("out.jsonl", first + "\n{}\n" + rest)
        refuse("out.jsonl:2:1: error: prompt_tokens: expected those of line 2 of the input", "--resume")
        os.remove(self.output)
        os.mkdir(self.output)
        refuse("out.jsonl: error: cannot write: ", "--resume")
        refuse("out.jsonl: error: cannot write: ")


class BadLines(Lines):
    def test_every_error_has_its_place(self):
        cases = (
            ('{"tokens": [1], "max_new_token": 8}', ":17: error: unknown field 'max_new_token', expected another; did you mean 'max_new_tokens'?"),
            ('{"tokens": [1], "xyz": 8}', ":17: error: unknown field 'xyz', expected one of id, tokens, stop, logit_bias, prompt, "),
            ('{"tokens": [1, 29]}', ":16: error: tokens: expected token ids in 0..28, got 29"),
            ('{"tokens": [-1]}', ":13: error: tokens: expected token ids in 0..28, got -1"),
            ('{"tokens": [1, "2"]}', ':16: error: tokens: expected token ids in 0..28, got "2"'),
            ('{"tokens": [1.5]}', ":13: error: tokens: expected token ids in 0..28, got 1.5"),
            ('{"tokens": 1}', ":12: error: tokens: expected an array of token ids, got 1"),
            ('{"tokens": []}', ":12: error: tokens: expected at least one token, got none"),
            ('{"prompt": "a"}', ":12: error: prompt: expected a model with a vocabulary, got none; give tokens"),
            ('{"prompt": ["a"]}', ":12: error: prompt: expected text, got an array"),
            ('{"prompt": "a", "tokens": [1]}', ":17: error: tokens: expected no prompt beside it"),
            ('{"tokens": [1], "id": 18446744073709551616}', ":23: error: id: expected numbers of at most 64 bits; others are possible as text"),
            ('{"tokens": [1], "id": {"a": [1e400]}}', ":23: error: id: expected numbers of at most 64 bits"),
            ('{"max_new_tokens": 2}', ":1: error: expected prompt or tokens, got neither"),
            ('{"tokens": [1], "tokens": [2]}', ":17: error: field 'tokens' is given twice"),
            ('{"tokens": [1], "max_new_tokens": -1}', ":35: error: max_new_tokens: expected an integer from 0, got '-1'"),
            ('{"tokens": [1], "max_new_tokens": 1.5}', ":35: error: max_new_tokens: expected an integer from 0, got '1.5'"),
            ('{"tokens": [1], "max_new_tokens": "2"}', ':35: error: max_new_tokens: expected a number, got "2"'),
            ('{"tokens": [1], "max_new_tokens": 24}', ":12: error: tokens: expected prompt and new tokens to fit in the context of 24, got 1 and 24"),
            ('{"tokens": [1], "temperature": -1}', ":32: error: temperature: expected a number from 0, got '-1'"),
            ('{"tokens": [1], "temperature": 1e999}', ":32: error: temperature: expected a number from 0, got 'null'"),
            ('{"tokens": [1], "top_k": -1}', ":26: error: top_k: expected an integer from 0, got '-1'"),
            ('{"tokens": [1], "top_p": 0}', ":26: error: top_p: expected a number above 0 and at most 1, got '0'"),
            ('{"tokens": [1], "min_p": 1.1}', ":26: error: min_p: expected a number from 0 to 1, got '1.1'"),
            ('{"tokens": [1], "seed": 18446744073709551616}', ":25: error: seed: expected an integer from 0, got '18446744073709551616'"),
            ('{"tokens": [1], "n": 0}', ":22: error: n: expected an integer from 1 to 4096, got '0'"),
            ('{"tokens": [1], "logprobs": 1025}', ":29: error: logprobs: expected an integer from 0 to 1024, got '1025'"),
            ('{"tokens": [1], "repetition_penalty": 0}', ":39: error: repetition_penalty: expected a number from 0.01 to 100, got '0'"),
            ('{"tokens": [1], "presence_penalty": 1e9}', ":37: error: presence_penalty: expected a number from -1000 to 1000, got '1000000000'"),
            ('{"tokens": [1], "logit_bias": 3}', ":31: error: logit_bias: expected an object"),
            ('{"tokens": [1], "logit_bias": {"3": 1, "29": 1}}', ":40: error: logit_bias: expected token ids in 0..28, got '29'"),
            ('{"tokens": [1], "logit_bias": {"3": 1, "03": 1}}', ":40: error: logit_bias: token 3 is given twice"),
            ('{"tokens": [1], "logit_bias": {"x": 1}}', ":32: error: logit_bias: expected token ids in 0..28, got 'x'"),
            ('{"tokens": [1], "logit_bias": {"3": "1"}}', ':37: error: logit_bias: expected a number from -1000 to 1000, got "1"'),
            ('{"tokens": [1], "logit_bias": {"3": 1001}}', ":37: error: logit_bias: expected a number from -1000 to 1000, got 1001"),
            ('{"tokens": [1], "greedy": 1}', ":27: error: greedy: expected true or false, got 1"),
            ('{"tokens": [1], "seed": 1, "greedy": true}', ":38: error: greedy: expected no temperature, top_k, top_p, min_p or seed beside it"),
            ('{"tokens": [1], "ignore_eos": null}', ":31: error: ignore_eos: expected true or false, got null"),
            ('{"tokens": [1], "overflow": "slid"}', ":29: error: overflow: expected error, stop or slide, got 'slid'; did you mean 'slide'?"),
            ('{"tokens": [1], "stop": "x"}', ":25: error: stop: expected a model with a vocabulary, to compare text with, got none"),
            ('{"tokens": [1], "stop": ["x", ""]}', ':25: error: stop: expected some text, or an array of texts, got ""'),
            ('{"tokens": [1], "stop": 3}', ":25: error: stop: expected some text, or an array of texts, got 3"),
            ("[1]", ":1: error: expected a JSON object"),
            ('{"tokens": [1]', ":15: error: not valid JSON"),
            ('{"tokens": [1]} {}', ":17: error: not valid JSON"),
            ('{"prompt": "\xff"}'.encode("latin-1"), ":13: error: not valid JSON"),
            ("[" * 1000, ":65: error: expected at most 64 nested JSON values"),
        )
        good = b'{"tokens":[1],"max_new_tokens":1}\n'
        for text, message in cases:
            with self.subTest(text=text):
                text = text if isinstance(text, bytes) else text.encode()
                path = self.write("bad.jsonl", good + b"\n" + text + b"\n" + good)
                self.assert_fails("bad.jsonl:3" + message, "run", self.model, "--device", "cpu", "--quiet", "--max-new-tokens", 1,
                                  "--input", path, "--output", self.output)

    def test_all_bad_lines_are_named(self):
        path = self.write("bad.jsonl", "{}\n" * 3)
        result = run_kiln("run", self.model, "--device", "cpu", "--input", path)
        self.assertEqual([line.split(" ")[0] for line in result.err.splitlines() if "error" in line], [f"{path}:{i}:1:" for i in (1, 2, 3)])
        result = run_kiln("run", self.model, "--device", "cpu", "--input", self.write("bad.jsonl", "{}\n" * 1000))
        self.assertIn("too many errors; further lines were not read", result.err)
        self.assertEqual(result.err.count("got neither"), 20)

    def test_standard_input_has_a_name(self):
        self.assert_fails("standard input:1:1: error: expected prompt or tokens", "run", self.model, "--device", "cpu", "--input", "-",
                          stdin=b"{}")
        self.assert_fails("none.jsonl: error: cannot read: ", "run", self.model, "--device", "cpu", "--input", self.path("none.jsonl"))

    def test_options_that_lines_leave_without_effect(self):
        path = self.write("in.jsonl", '{"tokens":[1]}')
        for options, message in (
                (["--input", path, "--tokens", 1], "--tokens: expected no --input, whose lines have the prompts"),
                (["--input", path, "--prompt", "a"], "--prompt: expected no --input, whose lines have the prompts"),
                (["--input", path, "--json"], "--json: expected no --input, whose results are always JSON"),
                (["--input", path, "--no-echo"], "--no-echo: expected no --input, whose results are always JSON"),
                (["--input", path, "--output", "-", "--resume"], "--resume: expected a file as --output, got -"),
                (["--input", path, "--resume"], "--resume requires --output"),
                (["--output", self.output], "--output requires --input"),
                (["--batch", 3], "--batch requires --input"),
                (["--input", path, "--batch", 0], "--batch: expected an integer from 1 to 4096, got '0'")):
            self.assert_fails(message, "run", self.model, "--device", "cpu", *options, code=2)


if __name__ == "__main__":
    unittest.main()
