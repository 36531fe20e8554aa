"""`kiln eval` on what people have: questions, token files, lines of JSON, WikiText; its log-probabilities are Hugging
Face's."""

import json
import math
import os
import random
import struct
import unittest

from kilntest import SHAKESPEARE, SOURCE, KilnTest, run_kiln, write_model

DATA = os.path.join(SOURCE, "tests", "data")
with open(os.path.join(DATA, "eval.json")) as file:
    EVAL = json.load(file)
DEVICE = os.environ.get("KILN_DEVICE", "emulate")
WORDS = "the king my lord and thou love not good night what is to be sweet death o heaven he shall speak again come".split()


def header(*numbers):
    return struct.pack("<256i", *numbers, *[0] * (256 - len(numbers)))


def token_file(ids):
    """llm.c's form."""
    return header(20240520, 1, len(ids)) + struct.pack(f"<{len(ids)}H", *ids)


def choice_file(examples):
    """llm.c's form of (context, endings, label), in ids."""
    stream, longest = [], 0
    for index, (context, endings, label) in enumerate(examples):
        own = [65535, 0, index, label, len(endings), len(context), *context]
        for ending in endings:
            own += [len(ending), *ending]
        own[1] = 2 * len(own)
        longest = max(longest, own[1])
        stream += own
    return header(20240522, 1, len(examples), longest) + struct.pack(f"<{len(stream)}H", *stream)


def made_questions(count):
    """Texts of (context, endings, label), the same on every machine."""
    generator = random.Random(17)
    phrase = lambda least, most: " ".join(generator.choice(WORDS) for _ in range(generator.randint(least, most)))
    return [(phrase(2, 4).capitalize(), [phrase(1, 2) for _ in range(4)], generator.randrange(4)) for _ in range(count)]


def question_lines(questions, **changes):
    lines = [{"ind": 5, "ctx": context, "endings": endings, "label": label, **changes} for context, endings, label in questions]
    return "".join(json.dumps(line) + "\n" for line in lines)


def share(values):
    """A share and its standard error."""
    mean = sum(values) / len(values)
    return mean, math.sqrt(mean * (1 - mean) / (len(values) - 1))


class Evaluation(KilnTest):
    def evaluate(self, path, *arguments, model=SHAKESPEARE, device="cpu", **options):
        (result,) = self.kiln("eval", model, "--text", path, "--json", "--quiet", "--device", device, *arguments, **options).objects()
        self.assertGreater(result.pop("tokens_per_second"), 0)
        return result

    def tokenize(self, texts):
        arguments = [argument for text in texts for argument in ("--text", text)]
        return [result["tokens"] for result in self.kiln("tokenize", SHAKESPEARE, "--json", *arguments).objects()]

    def log_probabilities(self, prefixes):
        """By prefix: the model's log-probability of every token, from `kiln run`."""
        lines = [{"tokens": prefix, "max_new_tokens": 1, "logprobs": 1009, "greedy": True} for prefix in prefixes]
        path = self.write("prefixes.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        results = self.kiln("run", SHAKESPEARE, "--input", path, "--device", "cpu", "--quiet", "--ignore-eos").objects()
        tops = [result["logprobs"][0]["top"] for result in results]
        return {prefix: {top["token"]: top["logprob"] for top in own} for prefix, own in zip(prefixes, tops, strict=True)}


class Questions(Evaluation):
    def test_agree_with_a_plain_computation(self):
        questions = made_questions(200)
        texts = [text for context, endings, _ in questions for text in (context, *(" " + ending for ending in endings))]
        ids = iter(self.tokenize(texts))
        examples = [(next(ids), [next(ids) for _ in range(4)], label) for _, _, label in questions]
        behind = lambda context, ending: [(*context, *ending[:i]) for i in range(len(ending))]
        prefixes = sorted({prefix for context, endings, _ in examples for ending in endings for prefix in behind(context, ending)})
        known = self.log_probabilities(prefixes)
        right, right_by_mean, scored = [], [], 0
        for context, endings, label in examples:
            sums = [sum(known[prefix][id] for prefix, id in zip(behind(context, ending), ending, strict=True)) for ending in endings]
            means = [total / len(ending) for total, ending in zip(sums, endings, strict=True)]
            right.append(sums.index(max(sums)) == label)
            right_by_mean.append(means.index(max(means)) == label)
            scored += sum(map(len, endings))
        self.assertNotEqual(right, right_by_mean)
        for path in (self.write("made.bin", choice_file(examples)), self.write("made.jsonl", question_lines(questions))):
            result = self.evaluate(path)
            for name, values in (("acc", right), ("acc_norm", right_by_mean)):
                for got, wanted in zip((result[name], result[name + "_standard_error"]), share(values), strict=True):
                    self.assertAlmostEqual(got, wanted, places=12)
            self.assertEqual((result["examples"], result["truncated"], result["tokens_scored"]), (200, 0, scored))

    def test_text_and_forms(self):
        questions = made_questions(3)
        lines = question_lines(questions)
        wanted = self.evaluate("-", stdin=lines.encode())
        parts = [{"ctx_a": context.split(" ")[0], "ctx_b": " ".join(context.split(" ")[1:]), "endings": endings, "label": str(label)}
                 for context, endings, label in questions]
        split = "\n".join(json.dumps(part) for part in parts)
        self.assertEqual(self.evaluate("-", stdin=split.encode()), wanted)
        out = self.kiln("eval", SHAKESPEARE, "--text", "-", "--quiet", "--device", "cpu", stdin=lines.encode()).out.decode()
        self.assertRegex(out, r"^acc = \d\.\d{4} \+/- \d\.\d{4}, acc_norm = \d\.\d{4} \+/- \d\.\d{4} \(3 examples\)\n$")
        err = self.kiln("eval", SHAKESPEARE, "--text", "-", "--device", "cpu", stdin=lines.encode()).err
        self.assertRegex(err, r"\[3/3\] acc \d\.\d{4} \+/- .*, acc_norm .*, \d+ tokens/s")

    def test_long_contexts_lose_their_begin(self):
        model = write_model(self.path("model"))  # 24 positions
        long = [id % 29 for id in range(40)]
        examples = [(long, [[1, 2], [3]], 0), (long[-22:], [[1, 2], [3]], 0)]
        results = [self.evaluate(self.write("some.bin", choice_file([example])), model=model) for example in examples]
        self.assertEqual([result["truncated"] for result in results], [1, 0])
        self.assertEqual(results[0]["acc"], results[1]["acc"])
        # A context of 22 tokens with an ending of 2 has 23 inputs.
        fits = self.evaluate(self.write("some.bin", choice_file([(long[:23], [[1, 2], [3]], 0)])), model=model)
        self.assertEqual(fits["truncated"], 0)


class Texts(Evaluation):
    def test_token_files(self):
        ids = EVAL["tokens"]
        wanted = self.evaluate(f"{DATA}/eval.txt")
        self.assertEqual(self.evaluate(self.write("shard.bin", token_file(ids))), wanted)
        nanogpt = self.write("val.bin", struct.pack(f"<{len(ids)}H", *ids))
        self.assertEqual(self.evaluate(nanogpt, "--format", "tokens"), wanted)
        self.assert_fails("val.bin: error: byte 0: expected a magic number of llm.c's tokens or questions; nanoGPT's tokens have none: "
                          "give --format tokens", "eval", SHAKESPEARE, "--text", nanogpt)

    def test_wikitext_as_hugging_face_joins_it(self):
        raw = " \n = A title = \n \n The text . \n"
        rows = ["", " = A title = \n", "", " The text . \n"]
        joined = self.evaluate("-", stdin="\n\n".join(rows).encode())
        lines = "".join(json.dumps({"text": row}) + "\n" for row in rows)
        self.assertEqual(self.evaluate("-", stdin=lines.encode()), joined)
        self.assertEqual(self.evaluate("-", "--format", "wikitext", stdin=raw.encode()), joined)
        self.assertNotEqual(self.evaluate("-", stdin=raw.encode()), joined)
        self.assertNotEqual(self.evaluate("-", "--format", "text", stdin=lines.encode()), joined)

    def test_running_estimate(self):
        result = self.kiln("eval", SHAKESPEARE, "--text", f"{DATA}/eval.txt", "--window", 200, "--device", "cpu", "--batch", 2)
        self.assertRegex(result.err, r"\[1/3\] perplexity \d+\.\d{4} \+/- \d+\.\d{4}, \d+ tokens/s\n")
        self.assertRegex(result.out.decode(), r"^perplexity = \d+\.\d{4} \+/- \d+\.\d{4} \(487 tokens, window 200, stride 200\)\n$")
        got = self.evaluate(f"{DATA}/eval.txt", "--window", 200)
        self.assertGreater(got["standard_error"], 0)

    def test_log_probabilities_of_hugging_face(self):
        tokens, wanted = EVAL["tokens"], EVAL["log_probabilities"]
        prefixes = [tuple(tokens[:length]) for length in [*range(1, 40), *range(40, len(tokens), 23)]]
        for prefix, known in self.log_probabilities(prefixes).items():
            length = len(prefix)
            self.assertAlmostEqual(known[tokens[length]], wanted[length - 1], delta=1e-4)

    def test_windows_side_by_side(self):
        """Kernels score windows of unequal length in one call as alone."""
        model = write_model(self.path("model"))
        path = self.write("some.bin", token_file([7 * id % 29 for id in range(40)]))
        for options in (["--window", 9, "--stride", 7], ["--window", 24]):
            wanted = self.evaluate(path, *options, model=model)
            for batch in (1, 3, 16):
                got = self.evaluate(path, *options, "--batch", batch, model=model, device=DEVICE)
                self.assertAlmostEqual(got["nll"], wanted["nll"], delta=1e-5 * wanted["nll"])
                self.assertEqual(got["accuracy"], wanted["accuracy"])


class BadFiles(Evaluation):
    def assert_refused(self, message, contents, *arguments, name="some.bin"):
        self.assert_fails(message, "eval", SHAKESPEARE, "--text", self.write(name, contents), *arguments)

    def test_questions_of_llmc(self):
        good = choice_file([([1, 2], [[3], [4, 5]], 1), ([1], [[3], [4], [5]], 2)])
        for at in range(0, len(good), 7):
            self.assert_refused("some.bin: error: ", good[:at], "--format", "hellaswag")
        self.assert_refused("some.bin: error: byte 1076: expected the end of the file, got 2 more bytes",
                            good + b"xx")

        def changed(at, value, form="H"):
            return good[:at] + struct.pack("<" + form, value) + good[at + struct.calcsize(form):]

        for message, contents in (
                ("byte 4: version: expected 1, got 2", changed(4, 2, "i")),
                ("byte 8: number of examples: expected a number from 1 to 65535, got 1073741824", changed(8, 2**30, "i")),
                ("byte 8: number of examples: expected at most what 52 bytes behind the header can hold, got 40000", changed(8, 40000, "i")),
                ("byte 1024: example 0, begin: expected 65535, got 7", changed(1024, 7)),
                ("byte 1026: example 0, bytes: expected a number from 0 to ", changed(1026, 65535)),
                ("byte 1028: example 0, index: expected 0, got 1", changed(1028, 1)),
                ("byte 1032: example 0: expected a label below the number of endings, 2, got 4", changed(1030, 4)),
                ("byte 1032: example 0, number of endings: expected a number from 2 to 65535, got 1", changed(1032, 1)),
                ("byte 1034: example 0, context: expected at most the ", changed(1034, 65535)),
                ("byte 1034: example 0, context, number of tokens: expected a number from 1 to 65535, got 0", changed(1034, 0)),
                ("byte 1036: example 0, context, token: expected a number from 0 to 1008, got 1009", changed(1036, 1009))):
            self.assert_refused("some.bin: error: " + message, contents)

    def test_tokens(self):
        good = token_file([1, 2, 3])
        for contents in (good[:-1], good[:-2], good + b"x", good[:600], good[:8] + struct.pack("<i", -1) + good[12:],
                         good[:8] + struct.pack("<i", 2**31 - 1) + good[12:]):
            self.assert_refused("some.bin: error: byte 8: number of tokens: expected a file of 1024 + 2 * ", contents)
        self.assert_refused("some.bin: error: byte 1028: token: expected an id from 0 to 1008, got 1009", token_file([1, 2, 1009]))
        self.assert_refused("some.bin: error: byte 0: magic number: expected GPT-2's tokens of 16 bits", header(20240801, 7, 0))
        self.assert_refused("some.bin: error: expected tokens of 2 bytes, got 3 bytes", b"\1\0\1", "--format", "tokens")

    def test_lines(self):
        line = {"ctx": "To", "endings": ["be", "go"], "label": 1}
        for message, change in (("label: expected the number of an ending, 0 to 1, got 2", {"label": 2}),
                                ("label: expected the number of an ending, 0 to 1, got \"\"", {"label": ""}),
                                ("label: expected the number of an ending, 0 to 1, got 1099511627776", {"label": 2**40}),
                                ("endings: expected an array of two texts or more", {"endings": ["be"]}),
                                ("endings: expected an array of texts", {"endings": ["be", 1]}),
                                ("ctx: expected some text, got none", {"ctx": ""}),
                                ("ctx: expected text, got another value", {"ctx": 7})):
            contents = json.dumps(line) + "\n\n" + json.dumps({**line, **change})
            self.assert_refused("some.jsonl:3:", contents, name="some.jsonl")
            self.assert_refused("error: " + message, contents, name="some.jsonl")
        self.assert_refused("some.jsonl:2:13: error: ", '{"text": "a"}\n{"text": "a"', name="some.jsonl")
        self.assert_refused("text: expected text, got no such field", '{"text": "a"}\n{"txt": "a"}', name="some.jsonl")
        self.assert_refused("some.jsonl: error: line 1: expected an object with text, or with ctx, endings and label", "[]", name="some.jsonl")

    def test_options(self):
        path = self.write("some.bin", choice_file([([1, 2], [[3], [4, 5]], 1)]))
        self.assert_fails("error: --stride: expected a text or tokens to cut into windows, got questions", "eval", SHAKESPEARE, "--text",
                          path, "--stride", 4, code=2)
        # These, too, are found before any kernel is compiled.
        text, empty = f"{DATA}/eval.txt", self.write("empty.txt", "")
        for code, message, *options in (
                (2, "error: --window: expected 1 to the context of 1024 tokens, got 5000", text, "--window", 5000),
                (2, "error: --stride: expected 1 to the window of 4 tokens, got 5", text, "--window", 4, "--stride", 5),
                (1, "empty.txt: error: expected a text of at least 2 tokens, got 0", empty),
                (1, "standard input: error: expected a text of at least 2 tokens, got 0", "-")):
            command = ("eval", SHAKESPEARE, "--device", "emulate", "--text", *options)
            self.assert_fails(message, *command, code=code)
            self.assertEqual(run_kiln(*command).err.count("\n"), 1)
        model = write_model(self.path("model"))
        self.assert_fails("eval.txt: error: expected a file of tokens, since the model has no vocabulary for a text", "eval", model,
                          "--text", f"{DATA}/eval.txt")


if __name__ == "__main__":
    unittest.main()
