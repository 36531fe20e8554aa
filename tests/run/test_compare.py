"""`kiln compare`: its figures are those of a plain computation, and a change of precision shows in each of them."""

import json
import math
import os
import struct
import unittest

from kilntest import LOGIT_TOLERANCES, SHAKESPEARE, SOURCE, KilnTest, ids, pack, run_kiln, safetensors, write_model

DATA = os.path.join(SOURCE, "tests", "data")
DEVICE = os.environ.get("KILN_DEVICE", "emulate")
IDS = [7 * id % 29 for id in range(40)]


def log_softmax(row):
    largest = max(row)
    total = largest + math.log(sum(math.exp(logit - largest) for logit in row))
    return [logit - total for logit in row]


def logits_file(tokens, logits, dtype="F32"):
    """A file of sequences of tokens and of their rows of logits."""
    flat = [logit for sequence in logits for row in sequence for logit in row]
    shape = [len(tokens), len(tokens[0])]
    packed = struct.pack(f"<{shape[0] * shape[1]}q", *(id for sequence in tokens for id in sequence))
    return safetensors({"tokens": ("I64", shape, packed), "logits": (dtype, [*shape, len(logits[0][0])], pack(flat, dtype))})


class Compare(KilnTest):
    def compare(self, *arguments, device="cpu"):
        (result,) = self.kiln("compare", *arguments, "--json", "--quiet", "--device", device).objects()
        return result

    def small_model(self):
        return write_model(self.path("model"))

    def token_file(self, count=40):
        header = struct.pack("<256i", 20240520, 1, count, *[0] * 253)
        return self.write("some.bin", header + struct.pack(f"<{count}H", *IDS[:count]))

    def assert_equal(self, result, layers):
        self.assertEqual(result["kl_divergence"], {"mean": 0, "standard_error": 0, "median": 0, "p99": 0, "max": 0})
        self.assertEqual((result["agreement"], result["logit_difference"]["largest"], result["score_difference"]), (1, 0, 0))
        self.assertEqual([layer["value"] for layer in result["layers"]], [f"x.{i}" for i in range(layers + 1)])
        self.assertEqual({layer["relative"] for layer in result["layers"]}, {0})
        self.assertEqual(result["a"]["perplexity"], result["b"]["perplexity"])


class Models(Compare):
    def test_a_model_with_itself(self):
        model, text = self.small_model(), self.token_file()
        result = self.compare(model, model, "--text", text)
        self.assertEqual(result["tokens"], 39)
        self.assert_equal(result, layers=2)
        (evaluated,) = self.kiln("eval", model, "--text", text, "--json", "--quiet", "--device", "cpu").objects()
        for name in ("perplexity", "standard_error"):
            self.assertAlmostEqual(result["a"][name], evaluated[name], delta=1e-5 * evaluated[name])
        self.assert_equal(self.compare(model, model, "--text", text, "--window", 7, device=DEVICE), layers=2)
        self.assertEqual(self.compare(model, model, "--text", text, "--max-tokens", 5)["tokens"], 5)

    def test_text_that_a_writes(self):
        result = self.compare(SHAKESPEARE, SHAKESPEARE, "--max-tokens", 20, "--window", 10)
        self.assertEqual(result["tokens"], 20)
        self.assert_equal(result, layers=6)
        self.assertEqual(self.compare(SHAKESPEARE, SHAKESPEARE, "--max-tokens", 23, "--window", 10)["tokens"], 23)
        # Also of sequences that run side by side, of which one ends before the others.
        model = self.small_model()
        result = self.compare(model, model, "--max-tokens", 23, "--window", 10, device=DEVICE)
        self.assertEqual(result["tokens"], 23)
        self.assert_equal(result, layers=2)
        # What a model writes, it finds probable: far less than the perplexity of 340 of another text.
        self.assertLess(result["a"]["perplexity"], 100)

    def test_precision(self):
        """A plan in bf16 against the reference executor, and the limits by which a script accepts it."""
        model, text = self.small_model(), self.token_file()
        exact = self.compare(model, model, "--text", text, "--device-a", "cpu", device=DEVICE)
        self.assertLess(exact["kl_divergence"]["max"], 1e-9)
        arguments = [model, model, "--text", text, "--dtype", "bf16", "--device-a", "cpu"]
        result = self.compare(*arguments, device=DEVICE)
        divergence = result["kl_divergence"]
        self.assertLess(0, divergence["median"])
        self.assertLess(divergence["median"], divergence["p99"])
        self.assertLessEqual(divergence["p99"], divergence["max"])
        self.assertLess(divergence["max"], 0.01)
        self.assertLess(1e-6, divergence["mean"])
        self.assertGreater(result["agreement"], 0.8)
        self.assertLess(1e-3, result["logit_difference"]["largest"])
        self.assertLess(1e-4, result["score_difference"])
        for layer in result["layers"][1:]:
            self.assertLess(1e-4, layer["relative"])
            self.assertLess(layer["relative"], layer["largest_of_token"])
            self.assertLess(layer["largest_of_token"], 0.05)
        for limits, message in ((["--max-kl", 0.01, "--min-agreement", 0.5], ""),
                                (["--max-kl", 1e-9], "error: --max-kl: expected a mean KL divergence of at most 1e-09, got "),
                                (["--max-kl", 0, "--min-agreement", 0.5], "error: --max-kl: expected a mean KL divergence of at most 0, got ")):
            outcome = run_kiln("compare", *arguments, *limits, "--quiet", "--device", DEVICE)
            self.assertEqual(outcome.code, 1 if message else 0)
            self.assertIn(message, outcome.err)
            self.assertIn(b"same best token   ", outcome.out)

    def test_plans(self):
        model, text = self.small_model(), self.token_file(20)
        for name, options in (("a", []), ("b", ["--strategy", "fusion=off", "--max-batch", "1"])):
            self.kiln("compile", model, "--stage", "cuda", "--quiet", "-o", self.path(name), *options)
        result = self.compare(self.path("a"), self.path("b"), "--text", text, device=DEVICE)
        self.assertLess(result["kl_divergence"]["max"], 1e-9)
        self.assertEqual(result["agreement"], 1)
        self.assertEqual(len(result["layers"]), 3)
        self.assertLess(result["layers"][2]["largest_of_token"], 1e-5)
        self.assert_fails("error: --dtype: ", "compare", self.path("a"), self.path("b"), "--dtype", "bf16", "--device", DEVICE, code=2)


class Files(Compare):
    def test_logits_of_hugging_face(self):
        for sides in ([f"{DATA}/logits.safetensors", SHAKESPEARE], [SHAKESPEARE, f"{DATA}/logits.safetensors"]):
            result = self.compare(*sides)
            self.assertEqual(result["tokens"], 24)
            self.assertLess(result["kl_divergence"]["max"], 1e-8)
            self.assertEqual(result["agreement"], 1)
            self.assertLess(result["logit_difference"]["largest"], LOGIT_TOLERANCES["shakespeare", "f32"])
            self.assertAlmostEqual(result["a"]["perplexity"], result["b"]["perplexity"], delta=1e-2)
            self.assertEqual(result["layers"], [])
            self.assertNotIn("score_difference", result)

    def test_figures_of_a_plain_computation(self):
        model, tokens = self.small_model(), IDS[:6]
        prompts = [argument for length in range(1, 7) for argument in ("--tokens", ids(tokens[:length]))]
        rows = [result["logits"][0] for result in self.run_json(model, *prompts, "--greedy", "--logits", "--max-new-tokens", 1)]
        # Other logits: one is larger in each row, by enough to be the best in some.
        others = [[logit + (0.5 + place if id == 3 * place else 0) for id, logit in enumerate(row)] for place, row in enumerate(rows)]
        result = self.compare(model, self.write("b.safetensors", logits_file([tokens], [others])))
        divergences, agree, nlls = [], [], ([], [])
        for place, (row, other) in enumerate(zip(rows, others, strict=True)):
            a, b = log_softmax(row), log_softmax(other)
            divergences.append(sum(math.exp(x) * (x - y) for x, y in zip(a, b, strict=True)))
            agree.append(row.index(max(row)) == other.index(max(other)))
            if place < 5:
                for nll, logs in zip(nlls, (a, b), strict=True):
                    nll.append(-logs[tokens[place + 1]])
        mean = sum(divergences) / 6
        error = math.sqrt(sum((x - mean) ** 2 for x in divergences) / 5 / 6)
        divergences.sort()
        wanted = {"mean": mean, "standard_error": error, "median": divergences[2], "p99": divergences[5], "max": divergences[5]}
        for name, value in wanted.items():
            self.assertAlmostEqual(result["kl_divergence"][name], value, delta=1e-5, msg=name)
        self.assertAlmostEqual(result["agreement"], sum(agree) / 6)
        self.assertNotIn(sum(agree), (0, 6))
        self.assertEqual({name: result["logit_difference"][name] for name in ("sequence", "token", "id")}, {"sequence": 0, "token": 5, "id": 15})
        self.assertAlmostEqual(result["logit_difference"]["largest"], 5.5, delta=1e-4)
        for side, nll in zip("ab", nlls, strict=True):
            self.assertAlmostEqual(result[side]["perplexity"], math.exp(sum(nll) / 5), delta=1e-3)

    def test_bad_files(self):
        model = self.small_model()
        row = [0.0] * 29
        for message, contents in (
                ("expected tensors 'tokens' and 'logits', got no 'tokens'", safetensors({"logits": ("F32", [1, 1, 29], bytes(116))})),
                ("tensor 'logits': expected a shape [sequences, tokens, vocabulary] without a 0",
                 safetensors({"tokens": ("I32", [1, 1], bytes(4)), "logits": ("F32", [1, 29], bytes(116))})),
                ("tensor 'tokens': expected the first two sizes of 'logits'",
                 safetensors({"tokens": ("I32", [1, 2], bytes(8)), "logits": ("F32", [1, 1, 29], bytes(116))})),
                ("tensor 'tokens': expected type I32 or I64, got F32",
                 safetensors({"tokens": ("F32", [1, 1], bytes(4)), "logits": ("F32", [1, 1, 29], bytes(116))})),
                ("tensor 'tokens': element 1: expected an id from 0 to 28, got 29", logits_file([[0, 29]], [[row, row]])),
                ("expected sequences of at most the model's context of 24 tokens, got 25", logits_file([[0] * 25], [[row] * 25])),
                ("expected the vocabulary of A, 29 tokens, got 30", logits_file([[0]], [[[*row, 0.0]]])),
                ("token 0: expected finite logits", logits_file([[0]], [[[float("nan"), *row[1:]]]])),
                ("b.safetensors: error: ", logits_file([[0]], [[row]])[:-1])):
            self.assert_fails(message, "compare", model, self.write("b.safetensors", contents), "--device", "cpu")

    def test_options(self):
        model, file = self.small_model(), f"{DATA}/logits.safetensors"
        for message, arguments in (
                ("expected a plan or a model as B, since A is a file of logits", [file, file]),
                ("--text: expected no file of logits", [file, model, "--text", "-"]),
                ("--dtype: expected a model as B, which it is about, got a file of logits", [model, file, "--dtype", "bf16"]),
                ("--device-a: expected a plan or a model as A", [file, model, "--device-a", "cpu"]),
                ("--format: expected --text", [model, model, "--format", "text"]),
                ("--window: expected at most the context of 24 tokens, got 25", [model, model, "--window", 25]),
                ("--max-tokens: expected at most 98304 tokens of sequences that A writes, got 1000000000000; give a --text",
                 [model, model, "--max-tokens", 10**12, "--device", "cpu"]),
                ("--min-agreement: expected a number from 0 to 1, got '2'", [model, model, "--min-agreement", 2])):
            self.assert_fails("error: " + message, "compare", *arguments, code=2)
        self.assert_fails("expected the vocabulary of A, 29 tokens, got 1009", "compare", model, SHAKESPEARE)
        # The text is read with A's vocabulary.
        self.assert_fails("expected a file of tokens", "compare", model, model, "--text", "-")


if __name__ == "__main__":
    unittest.main()
